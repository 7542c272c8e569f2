"""Host files as mappings: keys, errors that name the place, and round trips (P-44)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from error_codes import raises_code
from packaging.tags import Tag
from packaging.version import Version

from wheelfit.core.compatible_tags import linux_platforms, macos_platforms
from wheelfit.core.host_file import HostFile, HostInterpreter, HostProvider
from wheelfit.core.host_file_mapping import read_host_file, to_mapping
from wheelfit.core.toml_lines import line_of
from wheelfit_runtime.platforms.features import DeviceValues, Evidence, FeatureConfig

UV_FILE = """
[metadata]
created-by = "uv 0.9"
version = "0.1"

[[provider]]
resolved = ["nvidia-variant-provider==0.0.1"]
plugin-api = "nvidia_variant_provider.plugin:NvidiaVariantPlugin"
namespace = "nvidia"

[provider.properties]
cuda_version_lower_bound = ["12.8", "12.7"]
sm_arch = ["90_real"]

[[provider]]
resolved = ["x86-64-variant-provider==0.2.1"]
plugin-api = "x86_64_variant_provider"
namespace = "x86_64"
properties = {}
"""


def read(text: str) -> HostFile:
    """Read a host file from TOML; the format version is added."""
    return read_host_file({"metadata": {"version": "0.1"}} | tomllib.loads(text), "node.toml")


def test_file_of_the_uv_experiment() -> None:
    """P-44: a ``variant-lock.toml`` loads unchanged."""
    file = read_host_file(tomllib.loads(UV_FILE), "variant-lock.toml")
    assert file == HostFile(
        providers=(
            HostProvider(
                "nvidia",
                (
                    FeatureConfig("cuda_version_lower_bound", ("12.8", "12.7")),
                    FeatureConfig("sm_arch", ("90_real",)),
                ),
                plugin_api="nvidia_variant_provider.plugin:NvidiaVariantPlugin",
                resolved=("nvidia-variant-provider==0.0.1",),
            ),
            HostProvider(
                "x86_64",
                plugin_api="x86_64_variant_provider",
                resolved=("x86-64-variant-provider==0.2.1",),
            ),
        ),
        created_by="uv 0.9",
    )
    assert file.notes == (
        "written by uv 0.9: it has no interpreter and platform, so the current ones are used",
        "written by uv 0.9: no order of the features of nvidia, so that of the file is used",
    )


def test_feature_order() -> None:
    """P-44: ``feature-order`` comes first, the rest in the order of the file."""
    file = read("""
        [[provider]]
        namespace = "n"
        feature-order = ["c"]
        properties = {a = ["1"], b = ["1"], c = ["1"]}
    """)
    assert [feature.name for feature in file.providers[0].features] == ["c", "a", "b"]


FULL = HostFile(
    providers=(
        HostProvider(
            "nvidia",
            (FeatureConfig("b", ("2", "1"), multi_value=True), FeatureConfig("a", ())),
            plugin_api="m:C",
            resolved=("p==1",),
            evidence=(Evidence("libcuda.so.1", "12090"), Evidence("x", "")),
            devices=(DeviceValues("b", "GPU 0", frozenset(["1", "2"])),),
            version="2026-11",
            warnings=("the driver is old",),
        ),
        HostProvider("x86_64"),
    ),
    created_by="wheelfit 1",
    interpreter=HostInterpreter(Version("3.13.1"), "cpython", ("cp313t",)),
    platforms=linux_platforms("x86_64", glibc=39),
    environment={"platform_release": "6.1"},
    origin="this machine",
    overrides=("WHEELFIT_OVERRIDE_NVIDIA_B=2,1", "--disable-provider x86_64"),
)


@pytest.mark.parametrize(
    "file",
    [
        HostFile(),
        FULL,
        HostFile(platforms=("win_amd64",)),
        HostFile(platforms=linux_platforms("aarch64", musl=2)),
        HostFile(platforms=linux_platforms("aarch64", glibc=39)[1:]),
        HostFile(platforms=macos_platforms("arm64", 14)),
        HostFile(platforms=macos_platforms("x86_64", 10, 15)),
        HostFile(platforms=macos_platforms("arm64", 14)[1:]),
        HostFile(platforms=("macosx_99999999999999_0_arm64",)),
        HostFile(
            interpreter=HostInterpreter(Version("3.13"), tags=(Tag("cp313", "x", "y"),)),
        ),
    ],
)
def test_round_trip(file: HostFile) -> None:
    """Reading and writing are inverses, through TOML too."""
    assert read_host_file(to_mapping(file), "f") == file
    assert read_host_file(tomllib.loads(tomli_w.dumps(to_mapping(file))), "f") == file
    assert read_host_file(to_mapping(file), "f").environment == file.environment


def test_platform_is_written_in_three_facts() -> None:
    """A file that people edit does not list forty tags."""
    assert to_mapping(FULL)["platform"] == {"machine": "x86_64", "glibc": "2.39"}
    mac = HostFile(platforms=macos_platforms("arm64", 14))
    assert to_mapping(mac)["platform"] == {"machine": "arm64", "macos": "14.0"}


def test_one_abi_as_a_string() -> None:
    """People write one ABI without brackets."""
    file = read('interpreter = {version = "3.13", abi = "cp313t"}')
    assert file.interpreter == HostInterpreter(Version("3.13"), abis=("cp313t",))


def test_unknown_keys_are_noted() -> None:
    """Keys of somebody else do no harm, and do not pass in silence."""
    file = read("""
        author = "me"
        [[provider]]
        namespace = "n"
        properties = {}
        seen-at = "noon"
    """)
    assert file.notes == (
        "unknown key author is ignored",
        "unknown key provider[0].seen-at is ignored",
    )


def test_newer_format() -> None:
    """P-44: a newer version adds keys only: what is known counts, the rest is ignored and noted."""
    file = read_host_file(
        {"metadata": {"version": "0.2", "created_by": "x"}, "providers": 1}, "node.toml"
    )
    assert file.version == "0.2"
    assert file.notes == (
        "version 0.2 of the format is newer than 0.1; unknown keys are ignored",
        "unknown key providers is ignored",
        "unknown key metadata.created_by is ignored",
    )


def test_unknown_platform_is_noted() -> None:
    """Markers of a platform nobody knows are not guessed in silence."""
    (note,) = read('platform = {tags = ["freebsd_14_amd64"]}').notes
    assert note.startswith("the marker values of platform freebsd_14_amd64 are unknown")
    stated = 'platform = {tags = ["freebsd_14_amd64"]}\nenvironment = {os_name = "posix"}'
    assert read(stated).notes == ()


def test_examples_of_the_documentation() -> None:
    """Every example of the reference page is a host file without slips."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "host-files.md"
    examples = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 2
    for example in examples:
        assert read_host_file(tomllib.loads(example), "example").notes == ()


def test_errors_name_the_line() -> None:
    """Whoever edits a file wants to be led to the line."""
    text = UV_FILE.replace('"90_real"', '"SM90"')
    with raises_code("invalid-host-file") as excinfo:
        read_host_file(tomllib.loads(text), "node.toml", lambda path: line_of(text, path))
    assert excinfo.value.where == "node.toml, line 13"
    assert text.splitlines()[12].startswith("sm_arch")


PROVIDER = {"namespace": "n", "properties": {"f": ["1"]}}


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"metadata": None}, "metadata is missing"),
        ({"metadata": {}}, "metadata.version is missing"),
        ({"metadata": {"version": 0.1}}, "metadata.version must be a string"),
        ({"metadata": {"version": "2.0"}}, "metadata.version is '2.0', and only '0.1' is known"),
        ({"metadata": {"version": "0.0"}}, "metadata.version is '0.0', and only '0.1' is known"),
        ({"metadata": {"version": "new"}}, "metadata.version is 'new', and only '0.1' is known"),
        ({"metadata": {"version": "0.1", "overrides": "x"}}, "metadata.overrides must be a list"),
        ({"metadata": {"version": "0.1", "orgin": "x"}}, "metadata.orgin is an unknown key"),
        ({"providers": []}, "providers is an unknown key"),
        ({"provider": PROVIDER}, "provider must be a list of tables"),
        ({"provider": [PROVIDER, {"namespace": "n"}]}, "provider[1].properties is missing"),
        ({"provider": [{"properties": {}}]}, "provider[0].namespace is missing"),
        ({"provider": [PROVIDER | {"namespace": "N"}]}, "provider[0].namespace is not a valid"),
        ({"provider": [PROVIDER | {"plugin_api": "x"}]}, "provider[0].plugin_api is an unknown"),
        ({"provider": [PROVIDER | {"resolved": ["=="]}]}, "provider[0].resolved[0] is not a"),
        ({"provider": [PROVIDER | {"properties": []}]}, "provider[0].properties must be a table"),
        ({"provider": [PROVIDER | {"properties": {"f": "1"}}]},
         "provider[0].properties.f must be a list of strings"),
        ({"provider": [PROVIDER | {"properties": {"f": ["1", "1"]}}]},
         "provider[0].properties.f lists '1' twice"),
        ({"provider": [PROVIDER | {"properties": {"f": ["A"]}}]},
         "provider[0].properties.f lists 'A', which is not a valid value"),
        ({"provider": [PROVIDER | {"properties": {"F": ["1"]}}]},
         "provider[0].properties.F is not a valid feature"),
        ({"provider": [PROVIDER | {"feature-order": ["g"]}]},
         "provider[0].feature-order names 'g', which is not in properties"),
        ({"provider": [PROVIDER | {"evidence": [{"value": "x"}]}]},
         "provider[0].evidence[0].source is missing"),
        ({"interpreter": {}}, "interpreter.version is missing"),
        ({"interpreter": {"version": "new"}}, "interpreter.version is not a version of Python"),
        ({"interpreter": {"version": "3"}}, "interpreter.version must have at least major and"),
        ({"interpreter": {"version": "3.13", "tags": ["x"]}}, "interpreter.tags lists 'x', which"),
        ({"platform": {}}, "platform.tags is missing"),
        ({"platform": {"tags": []}}, "platform.tags is missing"),
        ({"platform": {"glibc": "2.39"}}, "platform.machine is missing"),
        ({"platform": {"machine": "x86_64", "tags": ["a"]}}, "platform.tags and machine cannot"),
        ({"platform": {"machine": "x86_64", "glibc": "39"}}, "platform.glibc is not a version"),
        ({"platform": {"macos": "14.0"}}, "platform.machine is missing; macos alone"),
        ({"platform": {"machine": "arm64", "macos": "9.0"}}, "platform.macos is not a version"),
        ({"platform": {"machine": "arm64", "macos": "14"}}, "platform.macos is not a version"),
        ({"platform": {"machine": "arm64", "macos": "14.0", "musl": "1.2"}},
         "platform.musl and macos cannot be given together"),
        ({"environment": {"os_nam": "x"}}, "environment.os_nam is not a marker variable"),
        ({"environment": {"extra": "x"}}, "environment.extra is not a marker variable"),
        ({"environment": {"variant_label": "x"}}, "environment.variant_label is not a marker"),
    ],
)  # fmt: skip
def test_errors_name_the_place(mapping: dict[str, Any], message: str) -> None:
    """P-44: what a person got wrong is said with its path and the file."""
    content = {"metadata": {"version": "0.1"}} | mapping
    with raises_code("invalid-host-file") as excinfo:
        read_host_file(content, "node.toml")
    assert excinfo.value.message.startswith(message)
    assert excinfo.value.where == "node.toml"
