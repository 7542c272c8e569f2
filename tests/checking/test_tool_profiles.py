"""The rules of uv and of the public registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checking.releases import INDEX_FILE, check, codes, document, only, sound_release, write
from differential.releases import Shelves
from differential.test_uv_oddities import ODD, Odd, put

from wheelfit.testing.wheels import release_document


def with_provider(namespace: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Return a document with one plugin."""
    features = {"nvidia": "sm_arch", "x86_64": "level", "tpu": "present", "amd": "gfx_arch"}
    values = {"nvidia": "90_real", "x86_64": "v3", "tpu": "true", "amd": "gfx942"}
    needs = {namespace: {features[namespace]: [values[namespace]]}}
    return release_document({"one": needs}, providers={namespace: entry})


NVIDIA_API = "nvidia_variant_provider.plugin:NvidiaVariantPlugin"
TPU_API = "tpu_variant_provider.plugin:TpuVariantPlugin"


@pytest.mark.parametrize(
    ("namespace", "requires", "plugin_api", "code"),
    [
        ("nvidia", ["nvidia-variant-provider>=0.0.1,<1"], NVIDIA_API, None),
        ("nvidia", ["NVIDIA_variant.provider"], NVIDIA_API, None),
        ("nvidia", ["nvidia-variant-provider>=0.0.2,<1.0.0"], NVIDIA_API, "uv-version-range"),
        ("nvidia", ["nvidia-variant-provider"], None, "uv-provider"),
        ("nvidia", ["nvidia-variant-provider", "more"], NVIDIA_API, "uv-provider"),
        ("nvidia", ["nvidia-variant-provider[x]"], NVIDIA_API, "uv-provider"),
        ("nvidia", ['nvidia-variant-provider; os_name == "posix"'], NVIDIA_API, "uv-provider"),
        ("nvidia", ["other"], NVIDIA_API, "uv-provider"),
        ("x86_64", ["x86-64-variant-provider<1"], None, None),
        ("x86_64", ["x86-64-variant-provider<1"], "x86_64_variant_provider", None),
        ("x86_64", ["x86-64-variant-provider<1"], "elsewhere", "uv-provider"),
        ("x86_64", ["provider-variant-x86-64"], None, "uv-provider"),
        (
            "tpu",
            ["tpu-variant-provider>=0.1"],
            "tpu_variant_provider.plugin:TpuVariantPlugin",
            None,
        ),
        ("amd", ["amd-variant-provider"], None, "uv-unsupported"),
    ],
)
def test_providers(
    tmp_path: Path, namespace: str, requires: list[str], plugin_api: str | None, code: str | None
) -> None:
    """F-153, F-155, P-61: uv recognises only its own spellings, and ranges with its version."""
    entry: dict[str, Any] = {"requires": requires}
    if plugin_api is not None:
        entry["plugin-api"] = plugin_api
    path = write(tmp_path / INDEX_FILE, with_provider(namespace, entry))
    found = {name for name in codes(check(path, profiles="uv")) if name.startswith("uv-")}
    assert found == ({code} if code else set())


def test_the_remedy_can_be_copied(tmp_path: Path) -> None:
    """F-153, P-61: what the remedy says to write is what uv recognises."""
    wrong = with_provider("nvidia", {"requires": ["nvidia-variant-provider>=0.0.2"]})
    path = write(tmp_path / INDEX_FILE, wrong)
    remedy = only(check(path, profiles="uv"), "uv-version-range").remedy
    assert '"requires": ["nvidia-variant-provider>=0.0.1,<1"]' in remedy
    assert f'"plugin-api": "{NVIDIA_API}"' in remedy


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda d: d.update({"$schema": d["$schema"].replace("850", "9999")}), "uv-schema"),
        (lambda d: d["providers"].pop("blas"), "uv-providers"),
    ],
)
def test_documents(tmp_path: Path, edit: Any, code: str) -> None:
    """F-150, F-152, F-155: layout and providers must be complete in every document."""
    path = write(tmp_path / INDEX_FILE, document(edit))
    assert code in codes(check(path, profiles="uv"))
    assert code not in codes(check(path))


def test_unknown_keys(tmp_path: Path) -> None:
    """F-150: one unknown key costs the whole release in uv; it is an error for everybody."""
    path = write(tmp_path / INDEX_FILE, document(lambda d: d["providers"]["blas"].update(x=1)))
    finding = only(check(path), "wrong-keys")
    assert finding.path == "providers.blas.x"
    assert "drop the whole release" in finding.remedy


def test_names_and_null(tmp_path: Path) -> None:
    """F-151, F-26: the index file has the normalised name, and lists null if a wheel has it."""
    sound_release(tmp_path)
    (tmp_path / INDEX_FILE).unlink()
    write(tmp_path / "Fast-1.0-variants.json", document(lambda d: d["variants"].pop("null")))
    found = codes(check(tmp_path, profiles="uv"))
    assert found == {"misspelt-index-file": 1, "uv-index-file": 1, "uv-null": 1}


# What depends on the machine or on the user, and not on the release.
ELSEWHERE = {
    "optional",
    "PTX for an older GPU",
    "code for this GPU only",
    "code for an older major version",
}
# Where the profile wants what the rules want, though uv is content with less (F-35, F-42, F-70).
STRICTER = {
    "the schema without a PEP",
    "providers under the schema of PEP 825",
    "a version spelled differently",
}


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.what)
def test_what_uv_was_seen_to_do(tmp_path: Path, odd: Odd) -> None:
    """F-155, F-150, F-154: what uv does not install is found beforehand, and only that."""
    put(Shelves(tmp_path), "project", odd)
    report = check(tmp_path, profiles="uv")
    counted = [finding for finding in report.findings if finding.severity != "note"]
    if odd.uv != "better":
        assert bool(counted) is (odd.what not in ELSEWHERE), codes(report)
    elif odd.ours == "better" and odd.what not in STRICTER:
        assert not [one for one in counted if one.code.startswith("uv-")]


def test_both_profiles(tmp_path: Path) -> None:
    """F-155, B-53: profiles add up."""
    path = sound_release(tmp_path)
    write(path / INDEX_FILE, document(lambda d: d["providers"]["nvidia"].pop("plugin-api")))
    found = codes(check(path, profiles="uv pypi"))
    assert found["uv-provider"] == 1
    assert found["pypi-variant-wheel"] == 3
