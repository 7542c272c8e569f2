"""The options that people use first, for the short help of commands that have many."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_INSTALL = "-r -e -U --dry-run --allow-source --python --index-url --for --variant --verbose"
_CHECK = "--full --binaries --instructions --profile --strict --ignore --sarif --output --json"
_TABLE = {
    "install": _INSTALL,
    "add": "-r --dev --group --extra --no-sync --dry-run --python --index-url --for --variant",
    "remove": "--dev --group --extra --no-sync --dry-run --python --for --offline --verbose",
    "lock": "-r --project -o --python-version --platform --upgrade --check -i --for --variant",
    "sync": "--extra --group --dry-run --inexact --refit --python --for --variant --offline -v",
    "list": "--outdated --variants --pre --python --target --index-url --for --json",
    "download": "-r -d --no-deps --dry-run --for --platform --python-version --allow-source -i -v",
    "show": "--files --python --target --for --json --verbose",
    "explain": "-r --with-deps --all --pre --python --index-url --for --variant --json --verbose",
    "tree": "--here --invert --depth --extra --group --python --for --variant --json",
    "bundle": "--output --for --verify --dry-run --extra --group --max-download",
    "export": "--format --output --wheels --for --extra --group --python --variant --json",
    "build": "--variant --all --property --plain --sdist --editable --output -C --python -v",
    "test": "--project --tests --command --extra --group --emulate --python --json",
    "wheel make": "--property --label --null --from-binary --project --output --dry-run --json",
    "wheel repack": "--name --set-version --remove-dependency --add-dependency --config --plan "
    "--property --label --output --dry-run",
    "publish": "--to --dry-run --check-url --trusted-publishing --attest --profile --strict "
    "--ignore --project --json",
    "wheel show": "--metadata --index-url --find-links --offline --json",
    "wheel check": _CHECK,
    "check": _CHECK,
    "abi bounds": "--against --project --exports --label --newest --built-with -i -f --json",
    "index check": "--project --full --profile --strict --ignore --sarif --output --json",
    "index convert": "--to --accept-losses --keep-going --json",
    "index import": "--project --owner --dry-run --at --database --storage --cert --offline --json",
    "index prefetch": "-r --lock --family --accelerator --dry-run --at --mirror "
    "--mirror-python --json",
    "index serve": "--settings --host --port --public-url --database --storage --read --delete "
    "--mirror --log-format",
    "proxy": "--host --port --allowed-host --full --python --index-url --for --variant --label -v",
    "run": "--full --python --index-url --for --variant --prefer --require --label --offline -v",
    "probe": "--output --record --replay --python --for --devices --no-plugins --json --verbose",
    "bridges update": "--remove --index-url --find-links --offline --trusted-publisher "
    "--require-attestations --json --verbose",
    "providers trust": "--namespace --hash --keep --yes --python --index-url --json",
    "doctor": "--runtime --full --strict --ignore --repair --python --target --for --json -v",
    "demo": "--gpu --index-url --find-links --offline --json --verbose",
    "bridges check": "--index-url --find-links --offline --json --verbose",
}
FIRST_OPTIONS: Mapping[str, tuple[str, ...]] = {
    name: tuple(options.split()) for name, options in _TABLE.items()
}
"""At most ten for each command, in the order of its help."""
