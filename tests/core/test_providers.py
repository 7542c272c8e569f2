from __future__ import annotations

import pytest

from wheelfit.core.provider_table import EMULATED_PLUGINS, EmulatedPlugin
from wheelfit.core.providers import (
    PluginProvider,
    default_endpoint,
    effective_endpoint,
    parse_endpoint,
    recognise,
    required_packages,
)

LINUX = {"sys_platform": "linux", "platform_system": "Linux", "python_version": "3.12"}
NVIDIA = "nvidia_variant_provider.plugin:NvidiaVariantPlugin"


def plugin(*requires: str, api: str | None = None) -> PluginProvider:
    """Make the provider of a plugin."""
    return PluginProvider(requires, api)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a"),
        ("a.b:C.d", "a.b:C.d"),
        ("a.b : C", "a.b:C"),
        (" a:b ", "a:b"),
        ("_a1.b2", "_a1.b2"),
        ("", None),
        ("a:", None),
        (":a", None),
        ("a:b:c", None),
        ("a b", None),
        ("a..b", None),
        ("1a", None),
        ("a-b", None),
        ("a:b()", None),
        ("é", None),
    ],
)
def test_object_references(text: str, expected: str | None) -> None:
    """P-7, P-62: module and attributes; blanks around the colon are ignored."""
    assert parse_endpoint(text) == expected


def test_default_endpoint() -> None:
    """P-7: the normalised name of the first requirement that applies here."""
    assert default_endpoint("My.Plug-in") == "my_plug_in"
    provider = plugin("win; sys_platform == 'win32'", "My.Plug>=1", "other")
    assert effective_endpoint(provider, LINUX) == "my_plug"
    assert effective_endpoint(provider, {**LINUX, "sys_platform": "win32"}) == "win"
    assert effective_endpoint(plugin("a", api="b : c"), LINUX) == "b:c"
    assert effective_endpoint(plugin("a; sys_platform == 'x'"), LINUX) is None


def test_required_packages() -> None:
    """P-6: requirements whose marker is false are dropped."""
    provider = plugin("a>=1; python_version > '3'", "b; python_version < '3'", "c[x]==1")
    assert [str(item) for item in required_packages(provider, LINUX)] == [
        'a>=1; python_version > "3"',
        "c[x]==1",
    ]


def test_a_marker_that_cannot_be_evaluated() -> None:
    """P-6: without a value for its variable a requirement is taken as not applying."""
    assert required_packages(plugin("a; os_name == 'posix'"), LINUX) == ()


PUBLISHED = [
    ("nvidia", "nvidia-variant-provider==0.0.1", NVIDIA),
    ("nvidia", "nvidia-variant-provider==0.0.2", NVIDIA),
    ("x86_64", "x86-64-variant-provider==0.2.1", None),
    ("x86_64", "x86-64-variant-provider==0.2.1", "x86_64_variant_provider"),
    ("x86_64", "provider-variant-x86-64==0.0.1.post2", None),
    (
        "x86_64",
        "provider-variant-x86-64==0.0.1.post2",
        "provider_variant_x86_64.plugin:X8664Plugin",
    ),
    ("aarch64", "aarch64-variant-provider==0.2.0", None),
    ("aarch64", "aarch64-variant-provider==0.2.0", "aarch64_variant_provider"),
    ("aarch64", "provider-variant-aarch64==0.0.1.post2", None),
    (
        "aarch64",
        "provider-variant-aarch64==0.0.3",
        "provider_variant_aarch64.plugin:AArch64Plugin",
    ),
    ("tpu", "tpu-variant-provider==0.1.0", "tpu_variant_provider.plugin:TpuVariantPlugin"),
    ("amd", "amd-variant-provider==0.0.2", "amd_variant_provider.plugin:AMDVariantPlugin"),
    ("amd", "rocm-bootstrap==0.3.0", "rocm_bootstrap.variant_provider:AMDVariantPlugin"),
    ("intel", "intel-variant-provider==0.0.2", "intel_variant_provider.plugin:IntelVariantPlugin"),
    ("intel", "intel-variant-provider==0.0.3", "intel_variant_provider.plugin:IntelVariantPlugin"),
    (
        "ascend",
        "huawei-ascend-variant-provider==0.0.2",
        "huawei_ascend_variant_provider.plugin:AscendVariantPlugin",
    ),
    (
        "ascend",
        "ascend-variant-provider==0.0.2",
        "ascend_variant_provider.plugin:AscendVariantPlugin",
    ),
]
"""The table of P-60: what is published, and how documents ask for it."""


@pytest.mark.parametrize(("namespace", "requirement", "api"), PUBLISHED)
def test_published_plugins(namespace: str, requirement: str, api: str | None) -> None:
    """P-60: every published plugin is recognised in its version and with its plugin-api."""
    assert recognise(namespace, plugin(requirement, api=api), LINUX).builtin == namespace
    package = requirement.partition("==")[0]
    assert recognise(namespace, plugin(f"{package}==77", api=api), LINUX).builtin is None


@pytest.mark.parametrize("row", EMULATED_PLUGINS)
def test_every_row_recognises_itself(row: EmulatedPlugin) -> None:
    """P-60: package, version and endpoint as in the table are recognised."""
    for version in row.versions:
        for endpoint in row.endpoints:
            found = recognise(
                row.namespace, plugin(f"{row.package}=={version}", api=endpoint), LINUX
            )
            assert found.builtin == row.namespace
            assert found.package == row.package
            assert found.plugin_api == endpoint
            assert version in found.reason


@pytest.mark.parametrize(
    ("namespace", "provider", "recognised"),
    [
        ("x86_64", plugin("x86-64-variant-provider<1"), True),
        ("x86_64", plugin("X86_64.variant-provider", api="x86_64_variant_provider"), True),
        ("x86_64", plugin("x86-64-variant-provider", api="other"), False),
        ("aarch64", plugin("aarch64-variant-provider"), True),
        ("aarch64", plugin("x86-64-variant-provider"), False),
        ("nvidia", plugin("nvidia-variant-provider"), False),  # the default is not its endpoint
        ("nvidia", plugin("nvidia-variant-provider", api=NVIDIA.replace(":", " : ")), True),
        ("nvidia", plugin("nvidia-variant-provider>=0.0.2,<1.0.0", api=NVIDIA), True),
        ("nvidia", plugin("nvidia-variant-provider>=0.0.3", api=NVIDIA), False),
        ("nvidia", plugin("nvidia-variant-provider[x]", api=NVIDIA), False),
        (
            "nvidia",
            plugin("nvidia-variant-provider @ https://example.org/x.whl", api=NVIDIA),
            False,
        ),
        ("nvidia", plugin("nvidia-variant-provider", "other", api=NVIDIA), False),
        (
            "nvidia",
            plugin(
                "nvidia-variant-provider; sys_platform == 'linux'",
                "other; sys_platform == 'win32'",
                api=NVIDIA,
            ),
            True,
        ),
        ("nvidia", plugin("evil-provider", api=NVIDIA), False),
        ("gpu", plugin("nvidia-variant-provider", api=NVIDIA), False),
        ("nvidia", plugin(api=NVIDIA), False),
    ],
)
def test_recognition(namespace: str, provider: PluginProvider, *, recognised: bool) -> None:
    """P-62, P-63: one requirement after markers, no extra, no URL, version and endpoint fit."""
    found = recognise(namespace, provider, LINUX)
    assert (found.builtin is not None) is recognised
    assert found.reason


def test_post_releases_are_emulated() -> None:
    """P-62: a range matches when it admits any emulated version, pre- and post-releases too."""
    provider = plugin("provider-variant-x86-64>=0.0.1")
    assert recognise("x86_64", provider, LINUX).builtin == "x86_64"


def test_the_table_is_data() -> None:
    """P-64: another table may be given."""
    row = EmulatedPlugin("gpu", "gpu-plugin", ("1",), ("gpu_plugin",))
    assert recognise("gpu", plugin("gpu-plugin"), LINUX, table=[row]).builtin == "gpu"
    assert recognise("gpu", plugin("gpu-plugin"), LINUX).builtin is None
