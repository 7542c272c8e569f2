"""The "final boss": builds for versions of other packages, through the real command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from wheelfit.cli.main import main
from wheelfit.core.metadata import read_document, write_document
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel

pytestmark = pytest.mark.usefixtures("bare_environment")

RELEASES = {
    "torch": ("2.8.0", "2.9.0"),
    "flash_attn": ("2.8.0",),
    "vllm": ("0.11.0",),
}
GATED = 'torch=={0}; "abi_dependency :: torch :: {0}" in variant_properties'
NEEDS = {
    "torch": [],
    "flash_attn": [GATED.format("2.8.0"), GATED.format("2.9.0")],
    "vllm": [GATED.format("2.8.0")],
}
CUDA_12 = "nvidia :: cuda_version_lower_bound :: 12.0"

Documents = Mapping[tuple[str, str], dict[str, Any]]


SCHEMA = "https://variants-schema.wheelnext.dev/{}.json"
NVIDIA = {
    "requires": ["nvidia-variant-provider>=0.0.2,<1.0.0"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    "enable-if": "platform_system == 'Linux' or platform_system == 'Windows'",
}
CODE = {  # of cuda12.6, cuda12.8 and cuda13.0 of torch 2.8.0
    "cuda12.6": "50_real 60_real 70_real 75_real 80_real 86_real 90_real",
    "cuda12.8": "70_real 75_real 80_real 86_real 90_real 100_real 120_real",
    "cuda13.0": "70_real 75_real 80_real 86_real 90_real 100_real 120_real 120_virtual",
}


def published(draft: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the documents of the published demo, in one of its two drafts."""
    found = {
        ("flash_attn", "2.8.0"): _built_for("12 2.8.0", "12 2.9.0", "13 2.9.0"),
        ("vllm", "0.11.0"): _built_for("128 2.8.0"),
        ("torch", "2.8.0"): _torch("2.8.0"),
        ("torch", "2.9.0"): _torch("2.9.0"),
    }
    for (name, _), document in found.items():
        static = "priority" if name == "torch" else "abi_dependency"
        providers = document["providers"] = {"nvidia": NVIDIA}
        namespaces = ["nvidia"]
        if draft == "v0.0.2" or name == "torch":
            namespaces.append(static)
            v2 = {"plugin-use": "none"}
            providers[static] = v2 if draft == "v0.0.2" else {"install-time": False}
        priorities = document["default-priorities"] = {"namespace": namespaces}
        if name == "torch" and draft == "v0.0.2":
            priorities["property"] = {"priority": {"cuda": ["1", "2", "3"]}}
        elif name == "torch":  # the mistake that was published
            document["static-properties"] = {"priority": {"order": ["1", "2", "3"]}}
        document["$schema"] = SCHEMA.format(draft)
    return {
        (name, version): found[name, version]
        for name, versions in RELEASES.items()
        for version in versions
    }


def _torch(version: str) -> dict[str, Any]:
    variants = {}
    for place, (label, code) in enumerate(CODE.items()):
        newest = label == "cuda13.0"
        left_out = "70_real" if newest and version == "2.9.0" else ""
        variants[label] = {
            "nvidia": {
                "cuda_version_lower_bound": ["13.0" if newest else "12.0"],
                "sm_arch": [one for one in code.split() if one != left_out],
            },
            "priority": {"cuda": [str(3 - place)]},
        }
    return {"variants": variants}


def _built_for(*builds: str) -> dict[str, Any]:
    variants = {}
    for build in builds:
        cuda, torch = build.split()
        variants[f"cu{cuda}_pyt{torch}"] = {
            "nvidia": {"cuda_version_lower_bound": [f"{cuda[:2]}.0"]},
            "abi_dependency": {"torch": [torch]},
        }
    return {"variants": variants}


def fixed(documents: Documents) -> dict[tuple[str, str], dict[str, Any]]:
    """Repair the published torch, which lists a feature that its labels do not use."""
    found = {}
    for release, document in documents.items():
        copy = json.loads(json.dumps(document))
        lists = copy.get("static-properties", {}).get("priority", {})
        if "order" in lists:
            lists["cuda"] = lists.pop("order")
        found[release] = copy
    return found


def converted(documents: Documents) -> dict[tuple[str, str], dict[str, Any]]:
    """Convert the documents to PEP 850."""
    return {
        release: json.loads(
            write_document(read_document(document, where="published"), accept_losses=True)
        )
        for release, document in documents.items()
    }


class Boss:
    """Commands with one index for one machine."""

    def __init__(
        self, index: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._index = index
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.said = ""
        """What the last command said on standard error."""
        self.driver("12.8")

    def driver(self, version: str, capability: str = "9.0") -> None:
        """Change the driver."""
        self._monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", version)
        self._monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", capability)

    def text(self, *words: str | Path, code: int = 0) -> str:
        """Run a command and return its output."""
        command, *others = map(str, words)
        is_named = {"--python", "--target", "--prefix"} & set(others)
        place = ["--python", sys.executable] if command == "install" and not is_named else []
        status = main([command, "--no-cache-dir", "-i", self._index, *place, *others])
        captured = self._capsys.readouterr()
        self.said = captured.err
        assert status == code, captured
        return captured.out

    def run(self, *words: str | Path, code: int = 0) -> dict[str, Any]:
        """Run a command and return its JSON, or the contents of its error."""
        answer = json.loads(self.text(*words, "--json", code=code))
        return dict(answer.get("error", answer))

    def would_install(self, *words: str | Path) -> dict[str, str]:
        """Return the version and label of each package that would be installed."""
        answer = self.run("install", "--dry-run", *words)
        return {
            entry["name"]: f"{entry['version']} {entry['label']}" for entry in answer["install"]
        }


@pytest.fixture
def serve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Return a function that serves stub wheels for documents."""
    servers = []

    def start(documents: Documents) -> Boss:
        folder = tmp_path / "index"
        for (name, version), document in documents.items():
            build_release(folder, name, version, document, requires=NEEDS[name])
        server = RecordingIndex(folder)
        server.start()
        servers.append(server)
        return Boss(server.url, capsys, monkeypatch)

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def boss(serve: Any) -> Boss:
    """Serve the published demo, repaired and converted."""
    boss: Boss = serve(converted(fixed(published("v0.0.3"))))
    return boss


@pytest.fixture(params=["L2", "L3", "L7"])
def any_layout(request: pytest.FixtureRequest, serve: Any) -> Boss:
    """Serve the demo in both published layouts, and converted."""
    documents = published("v0.0.2" if request.param == "L2" else "v0.0.3")
    repaired = fixed(documents)
    boss: Boss = serve(converted(repaired) if request.param == "L7" else repaired)
    return boss


class TestFinalBoss:
    """Section 6 of the acceptance scenarios."""

    def test_a39_the_unrepaired_torch(self, serve: Any) -> None:
        """A-39: the error names a feature of the published torch that no label uses."""
        error = serve(published("v0.0.3")).run("install", "--dry-run", "torch==2.8.0", code=3)
        assert error["code"] == "no-compatible-wheel"
        assert "priority :: cuda" in error["note"]

    @pytest.mark.parametrize(
        ("request_", "expected"),
        [
            (
                ("torch==2.8.0", "flash-attn"),  # A-41
                {"torch": "2.8.0 cuda12.8", "flash-attn": "2.8.0 cu12_pyt2.8.0"},
            ),
            (
                ("torch==2.9.0", "flash-attn"),  # A-42
                {"torch": "2.9.0 cuda12.8", "flash-attn": "2.8.0 cu12_pyt2.9.0"},
            ),
            (
                ("torch", "flash-attn"),  # A-43
                {"torch": "2.9.0 cuda12.8", "flash-attn": "2.8.0 cu12_pyt2.9.0"},
            ),
            (
                ("flash-attn", "vllm"),  # A-45
                {
                    "vllm": "0.11.0 cu128_pyt2.8.0",
                    "flash-attn": "2.8.0 cu12_pyt2.8.0",
                    "torch": "2.8.0 cuda12.8",
                },
            ),
        ],
    )
    def test_chosen_together(
        self, request_: tuple[str, ...], expected: dict[str, str], any_layout: Boss
    ) -> None:
        """A-41, A-42, A-43, A-45, F-54: each build is for the chosen torch, in any layout."""
        assert any_layout.would_install(*request_) == expected
        assert any_layout.would_install(*reversed(request_)) == expected

    @pytest.mark.parametrize(
        ("torch", "label"),
        [
            ("torch==2.8.0", "cu12_pyt2.8.0"),
            ("torch==2.9.0", "cu12_pyt2.9.0"),
            ("torch", "cu12_pyt2.9.0"),
        ],
    )
    def test_a44_one_after_the_other(
        self, torch: str, label: str, boss: Boss, tmp_path: Path
    ) -> None:
        """A-44, P-56: installed packages are kept, and the build for them is chosen."""
        place = ("--target", tmp_path / "place")
        first = boss.run("install", *place, torch)["install"]
        second = boss.run("install", *place, "flash-attn")
        assert [one["label"] for one in second["install"]] == [label]
        assert [one["version"] for one in second["keep"]] == [first[0]["version"]]
        assert not second["remove"]

    def test_a45_the_explanation(self, boss: Boss) -> None:
        """A-45, F-111: it names the deciding torch, and the reason for each rejected label."""
        answer = boss.run("explain", "--with-deps", "flash-attn", "vllm")
        flash, vllm, torch = answer["projects"]
        assert flash["chosen"]["built_for"] == [
            {"name": "torch", "value": "2.8.0", "version": "2.8.0", "how": "is chosen"}
        ]
        reasons = {candidate["label"]: candidate["reason"] for candidate in flash["candidates"]}
        assert reasons["cu12_pyt2.9.0"] == (
            "is built for torch 2.9.0, torch 2.8.0 is chosen (abi_dependency :: torch :: 2.9.0)"
        )
        assert "needs CUDA driver >= 13.0" in reasons["cu13_pyt2.9.0"]
        assert vllm["chosen"]["label"] == "cu128_pyt2.8.0"
        assert (torch["chosen"]["label"], torch["chosen"]["built_for"]) == ("cuda12.8", [])

    def test_a45_the_explanation_in_words(self, boss: Boss) -> None:
        """A-45, F-111: the text has the same; if only the package is requested, torch is open."""
        together = boss.text("explain", "--with-deps", "flash-attn", "vllm")
        assert "built for   torch 2.8.0 (torch 2.8.0 is chosen)" in together
        alone = boss.text("explain", "flash-attn")
        assert "built for   torch 2.9.0 (torch is chosen together with it)" in alone

    def test_a46_nothing_for_cuda_12(self, boss: Boss) -> None:
        """A-46, F-91: without CUDA 12 builds there is no solution; vllm's only label is named."""
        for driver in ("12.8", "13.0"):
            boss.driver(driver)
            error = boss.run(
                "install", "--dry-run", "flash-attn", "vllm", "--forbid", CUDA_12, code=3
            )
            lines = error["note"].splitlines()
            (line,) = lines[lines.index("vllm 0.11.0:") + 1 :]
            assert line == f"  cu128_pyt2.8.0: {CUDA_12} is forbidden"

    def test_a47_one_major(self, boss: Boss) -> None:
        """A-47: A lesser torch is chosen for packages that need CUDA 12, and they are named."""
        boss.driver("13.0")
        expected = {
            "vllm": "0.11.0 cu128_pyt2.8.0",
            "flash-attn": "2.8.0 cu12_pyt2.8.0",
            "torch": "2.8.0 cuda12.8",
        }
        assert boss.would_install("flash-attn", "vllm") == expected
        assert "mixed" not in boss.said
        boss.text("install", "--dry-run", "flash-attn", "vllm")
        assert (
            "note: CUDA 12 for all, because vllm 0.11.0 has only builds for CUDA 12: "
            "cuda12.8 of torch 2.8.0, not cuda13.0"
        ) in boss.said
        answer = boss.run("explain", "--with-deps", "flash-attn", "vllm")
        assert answer["agreements"] == [
            {
                "name": "cuda",
                "values": ["12"],
                "packages": {"flash-attn": ["12"], "torch": ["12"], "vllm": ["12"]},
                "forced_by": ["vllm"],
                "reasons": ["vllm 0.11.0 has only builds for CUDA 12"],
                "changes": [
                    {
                        "name": "torch",
                        "version": "2.8.0",
                        "label": "cuda12.8",
                        "instead_of": {"version": "2.8.0", "label": "cuda13.0"},
                    }
                ],
            }
        ]
        torch = answer["projects"][-1]
        reasons = {candidate["label"]: candidate["reason"] for candidate in torch["candidates"]}
        assert reasons["cuda13.0"] == (
            "is built for CUDA 13, this environment has CUDA 12 because of vllm"
        )
        words = boss.text("explain", "--with-deps", "flash-attn", "vllm")
        assert words.startswith("CUDA 12 for all, because vllm 0.11.0 has only builds for CUDA 12")

    def test_a47_no_set_agrees(self, boss: Boss) -> None:
        """A-47: if only the CUDA 13 torch is allowed, the error names the closest sets."""
        boss.driver("13.0")
        only = ("--label", "torch=cuda13.0")
        error = boss.run("install", "--dry-run", "flash-attn", "vllm", *only, code=3)
        assert error["code"] == "no-consistent-set"
        assert error["message"] == (
            "packages must agree on CUDA, but these cannot: CUDA 12: flash-attn, vllm; "
            "CUDA 13: torch"
        )
        assert [(one["values"], one["packages"], one["lacks"]) for one in error["closest"]] == [
            ({"cuda": "13"}, ["flash-attn", "torch"], ["vllm"]),
            ({"cuda": "12"}, ["flash-attn", "vllm"], ["torch"]),
        ]
        lines = error["note"].splitlines()
        assert "    cu128_pyt2.8.0: is built for CUDA 12, not for CUDA 13" in lines
        assert "--allow-mixed cuda" in error["hint"]

    def test_a47_mixing_is_allowed(self, boss: Boss) -> None:
        """A-47: with mixing allowed each package gets its best build, with a warning."""
        boss.driver("13.0")
        mixed = "CUDA majors are mixed (CUDA 12: flash-attn, vllm; CUDA 13: torch)"
        lower_bound = "nvidia :: cuda_version_lower_bound"
        for allowed in ("cuda", lower_bound, ":all:"):
            found = boss.would_install("flash-attn", "vllm", "--allow-mixed", allowed)
            assert found["torch"] == "2.8.0 cuda13.0"
            assert mixed in boss.said
        answer = boss.run("explain", "--with-deps", "flash-attn", "vllm", "--allow-mixed", "cuda")
        assert mixed in boss.said
        assert (answer["agreements"][0]["values"], answer["agreements"][0]["reasons"]) == ([], [])
        error = boss.run("install", "vllm", "--allow-mixed", "cuda_version", code=1)
        assert error["hint"] == "they agree on cuda, rocm, blas, openmp, mpi, pytorch"

    def test_a47_an_exchange_needs_consent(self, boss: Boss, tmp_path: Path) -> None:
        """A-47: replacing the build of an installed package requires consent."""
        boss.driver("13.0")
        place = ("--target", tmp_path / "place")
        boss.run("install", *place, "torch==2.8.0")
        error = boss.run("install", *place, "vllm", code=7)
        assert error["code"] == "variant-change"
        assert "cuda13.0 -> cuda12.8" in f"{error['message']} {error['note']}"
        answer = boss.run("install", *place, "vllm", "--allow-variant-change")
        assert {one["name"]: one["label"] for one in answer["install"]} == {
            "vllm": "cu128_pyt2.8.0",
            "torch": "cuda12.8",
        }
        mixed = boss.run("install", "--dry-run", *place, "flash-attn", "--allow-mixed", "cuda")
        assert [one["label"] for one in mixed["install"]] == ["cu12_pyt2.8.0"]

    def test_a47_from_a_lock(self, boss: Boss, tmp_path: Path) -> None:
        """A-47: the builds chosen from a lock agree with each other and with kept packages."""
        lock = tmp_path / "pylock.toml"
        boss.text("lock", "flash-attn", "vllm", "-o", lock, "--platform", "linux-x86_64")
        boss.driver("13.0")

        def synced(*options: str) -> dict[str, str]:
            place = ("--target", tmp_path / "place", "--dry-run")
            answer = boss.run("sync", lock, *place, *options)
            assert answer["agreements"][0]["name"] == "cuda"
            return {one["name"]: one["label"] for one in answer["install"]}

        others = {"vllm": "cu128_pyt2.8.0", "flash-attn": "cu12_pyt2.8.0"}
        assert synced() == {**others, "torch": "cuda12.8"}
        assert synced("--allow-mixed", "cuda") == {**others, "torch": "cuda13.0"}
        assert "CUDA majors are mixed (CUDA 12: flash-attn, vllm; CUDA 13: torch)" in boss.said
        only = ("--label", "torch=cuda13.0")
        error = boss.run("sync", lock, "--target", tmp_path / "place", *only, code=3)
        assert error["code"] == "no-consistent-set"
        # The lock has one torch, so flash-attn has no build for CUDA 13 any more.
        assert [one["lacks"] for one in error["closest"]] == [["flash-attn", "vllm"], ["torch"]]

    def test_a47_configured(self, boss: Boss, user_settings: Path) -> None:
        """A-47: the configuration permits mixing, and declares or replaces agreements."""
        boss.driver("13.0")
        user_settings.write_text('allow-mixed = ["cuda"]')
        assert boss.would_install("flash-attn", "vllm")["torch"] == "2.8.0 cuda13.0"
        user_settings.write_text('[[agreement]]\nname = "cuda"\nfeatures = ["acme :: fabric"]')
        assert boss.would_install("flash-attn", "vllm")["torch"] == "2.8.0 cuda13.0"
        assert "mixed" not in boss.said
        own = 'name = "order"\ntitle = "order"\nfeatures = ["priority :: cuda"]'
        user_settings.write_text(f"[[agreement]]\n{own}\n")
        answer = boss.run("explain", "--with-deps", "torch")
        assert [agreement["name"] for agreement in answer["agreements"]] == ["cuda", "order"]
        for wrong, message in {
            'name = "Order"': "agreement[0].name is not a name",
            'name = "a"\ntitle = 3': "agreement[0].title must be a string",
            'name = "a"\npart = "minor"': "agreement[0].part is none of major, whole",
            'name = "a"\nbound = 1': "agreement[0].bound is neither true nor false",
            'name = "a"': "agreement[0].features names no feature",
            'name = "a"\nfeature = []': "agreement[0].feature is not a setting",
            'name = "a"\nfeatures = ["cuda"]': "'cuda' is not a feature",
        }.items():
            user_settings.write_text(f"[[agreement]]\n{wrong}\n")
            assert message in boss.run("explain", "torch", code=1)["message"]

    def test_a47_what_is_installed_takes_part(self, boss: Boss, tmp_path: Path) -> None:
        """A-47: an installed build for CUDA 12 constrains later installations."""
        place = ("--target", tmp_path / "place")
        boss.run("install", *place, "torch==2.9.0")
        boss.driver("13.0")
        answer = boss.run("install", "--dry-run", *place, "flash-attn")
        assert [one["label"] for one in answer["install"]] == ["cu12_pyt2.9.0"]
        assert answer["agreements"][0]["reasons"] == [
            "the installed torch 2.9.0 (cuda12.8) is built for CUDA 12"
        ]

    def test_a48_another_torch_is_installed(self, boss: Boss, tmp_path: Path) -> None:
        """A-48, P-56: an installed torch in conflict is named, with a way to resolve it."""
        place = ("--target", tmp_path / "place")
        boss.run("install", *place, "torch==2.9.0")
        error = boss.run("install", *place, "vllm", code=3)
        assert "cu128_pyt2.8.0: is built for torch 2.8.0, torch 2.9.0 is installed" in error["note"]
        assert "--upgrade-package torch" in error["hint"]
        answer = boss.run("install", *place, "vllm", "--upgrade-package", "torch")
        assert {one["name"]: one["version"] for one in answer["install"]} == {
            "vllm": "0.11.0",
            "torch": "2.8.0",
        }
        # What is asked for by name may change as well.
        boss.run("install", *place, "torch==2.9.0", "flash-attn")
        answer = boss.run("install", "--dry-run", *place, "vllm", "torch==2.8.0")
        assert answer["install"][0]["version"] == "2.8.0"

    def test_a48_without_a_solution(self, boss: Boss) -> None:
        """A-48: for contradictory requests the proof names the versions that builds are for."""
        error = boss.run("install", "--dry-run", "torch==2.9.0", "vllm", code=3)
        assert error["note"].splitlines() == [
            (
                "because vllm 0.11.0 (cu128_pyt2.8.0) is built for torch 2.8.0 "
                "and you require vllm, torch 2.9.0 cannot be used"
            ),
            "and because you require torch==2.9.0, your request cannot be met",
        ]

    def test_a49_switched_off(self, boss: Boss, tmp_path: Path) -> None:
        """A-49, P-50: without the provider the labels are incompatible, with a note."""
        error = boss.run("install", "--dry-run", "vllm", "--no-abi-dependency", code=3)
        off = "builds for a version of another package are switched off"
        assert off in error["note"]
        build_wheel(tmp_path / "index", "vllm", "0.11.0")
        assert boss.would_install("vllm", "--no-abi-dependency") == {"vllm": "0.11.0 None"}
        assert f"warning: abi_dependency: {off}" in boss.said

    def test_declared_versions(self, boss: Boss, monkeypatch: pytest.MonkeyPatch) -> None:
        """P-57: A declared version is used and reported; an invalid one is ignored."""
        monkeypatch.setenv("VARIANT_ABI_DEPENDENCY", "torch==2.8.0,nonsense")
        assert boss.would_install("flash-attn")["flash-attn"] == "2.8.0 cu12_pyt2.8.0"
        assert "torch 2.8.0 is declared by VARIANT_ABI_DEPENDENCY" in boss.said
        assert "'nonsense' is ignored" in boss.said
        assert boss.would_install("flash-attn", "--no-deps") == {
            "flash-attn": "2.8.0 cu12_pyt2.8.0"
        }
