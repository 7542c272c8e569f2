"""Laws of the providers for AMD and Ascend: any text is understood, lists keep their promises."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.providers.amd import probes as amd_probes
from wheelfit_runtime.platforms.providers.amd import provider as amd
from wheelfit_runtime.platforms.providers.amd.probes import AmdDriver, AmdGpu, KfdFiles, ToolAnswer
from wheelfit_runtime.platforms.providers.ascend import probes as ascend_probes
from wheelfit_runtime.platforms.providers.ascend import provider as ascend
from wheelfit_runtime.platforms.providers.ascend.probes import AscendCard, AscendDriver, AscendSigns
from wheelfit_runtime.platforms.system_view import SystemView

# Words of the real texts, so that drawn ones come near to being understood.
WORDS = st.sampled_from(
    [
        "simd_count", "gfx_target_version", "drm_render_minor", "cpu_cores_count", "90402",
        "110501", "128", "0", "-1", "99999999999999999999", "gfx942", "gfx90a:sramecc+:xnack-",
        "gfx11-generic", "gfx000", "gfx", "Agent 1", "Agent", "Name:", "Device Type:", "GPU",
        "CL_DEVICE_TYPE_GPU", "Device Name", "Node:", "1", "| 0", "910B3", "Ascend910", "| OK",
        "|", "NA", "0000:01:00.0", "Version: 24.1.rc3", "Version=", "version=8.2.RC1",
        "toolkit_running_version=[7.5:8.0]", "6.4.1-83", "\t", "\0", "\u2028", "é",
    ]
)  # fmt: skip
TEXTS = st.text() | st.lists(WORDS | st.sampled_from(["\n", "\r\n", " "])).map("".join)
ANSWERS = st.builds(
    Answer,
    st.sampled_from(Ending),
    st.sampled_from([0, 1, 11]),
    TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(),
    st.binary(),
)
DEVICES = st.frozensets(st.sampled_from(["/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD0"]))
TREES = st.builds(
    KfdFiles, st.dictionaries(st.integers(0, 99), st.none() | TEXTS), st.none() | TEXTS, DEVICES
)
GPUS = st.builds(
    AmdGpu,
    st.integers(0, 20),
    st.sampled_from(["gfx942", "gfx90a", "gfx1100", "gfx1036", "gfx1399"]),
    st.booleans(),
    st.sampled_from(["", "", "", "hidden"]),
)
VERSIONS = st.none() | st.tuples(st.integers(0, 20), st.integers(0, 30))
CARDS = st.builds(
    AscendCard,
    st.integers(0, 20),
    st.sampled_from(["910", "910b3", "310p3", "910c", "a3", "310", "910-x", ""]) | TEXTS,
)

VALUE = re.compile(r"[a-z0-9_.]+")


def check(detection: Detection) -> None:
    """Check what every answer promises."""
    assert (detection.status is Status.SUPPORTED) == bool(detection.features)
    for feature in detection.features:
        assert len(set(feature.values)) == len(feature.values) > 0
        assert all(VALUE.fullmatch(value) for value in feature.values)
    values = {feature.name: set(feature.values) for feature in detection.features}
    for device in detection.devices:
        assert device.values <= values[device.feature]
    if detection.devices:  # otherwise there would be nothing to narrow
        assert len({device.values for device in detection.devices}) > 1


@given(TREES, TEXTS)
def test_any_tree_of_the_kernel_is_understood(files: KfdFiles, release: str) -> None:
    """P-74, P-124: whatever the files say, there is an answer, and hidden GPUs do not count."""
    topology = amd_probes.parse_kfd(files)
    driver = AmdDriver(topology.gpus, amd_probes.parse_release(release), evidence=topology.evidence)
    for reference in (False, True):
        check(amd.supported(driver, reference=reference))
    if "/dev/kfd" not in files.devices:
        assert all(gpu.problem for gpu in topology.gpus)


@given(st.sampled_from(["rocm_agent_enumerator -name", "rocminfo", "clinfo"]), ANSWERS)
def test_any_answer_of_amd_s_tools_is_understood(name: str, answer: Answer) -> None:
    """P-74, P-125: whatever they print, names are names of GPUs."""
    gpus = amd_probes.gpus_of_tool(ToolAnswer(name, answer))
    assert all(amd.PROVIDER.accepts("gfx_arch", gpu.name) for gpu in gpus)
    check(amd.supported(AmdDriver(gpus)))


@given(ANSWERS, TEXTS, TEXTS)
def test_any_answer_of_huawei_s_tool_is_understood(answer: Answer, driver: str, tool: str) -> None:
    """P-74, P-140, P-142: whatever tool and files say, there is an answer."""
    table = ascend_probes.parse_npu_smi(answer)
    files = ascend_probes.parse_files(AscendSigns((), (), driver))
    version = files.driver_version or table.driver_version
    found = AscendDriver(table.cards, version, ascend_probes.parse_cann(tool))
    for reference in (False, True):
        check(ascend.supported(found, reference=reference))


@given(st.lists(GPUS, max_size=6), VERSIONS, st.booleans())
def test_wheels_of_the_reference_stay_compatible(
    gpus: list[AmdGpu],
    version: tuple[int, int] | None,
    same_major: bool,  # noqa: FBT001
) -> None:
    """P-40, P-41, P-122, P-123: what the reference lists is listed; discrete GPUs come first."""
    driver = AmdDriver(tuple(gpus), version)
    ours = amd.supported(driver, same_major=same_major)
    check(ours)
    values = {feature.name: feature.values for feature in ours.features}
    for feature in amd.supported(driver, reference=True).features:
        assert set(feature.values) <= set(values[feature.name])
    usable = [gpu for gpu in gpus if not gpu.problem]
    discrete = {gpu.name for gpu in usable if not gpu.integrated}
    names = values.get("gfx_arch", ())
    assert set(names) == {gpu.name for gpu in usable}
    assert set(names[: len(discrete)]) == discrete
    if version is not None:
        assert values["rocm_version"][0] == f"{version[0]}.{version[1]}"


@given(st.lists(CARDS, max_size=6))
def test_the_first_card_comes_first(cards: list[AscendCard]) -> None:
    """P-41, P-43, P-141: the reference's list is the beginning of ours."""
    ours = ascend.supported(AscendDriver(tuple(cards)))
    check(ours)
    for feature in ascend.supported(AscendDriver(tuple(cards)), reference=True).features:
        assert ours.features[0].values[: len(feature.values)] == feature.values


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from("0 1 2 10 x".split()), TEXTS), TEXTS, ANSWERS)  # noqa: SIM905
def test_any_machine_has_an_answer(nodes: dict[str, str], text: str, answer: Answer) -> None:
    """P-17, P-74: through the whole of detection, nothing is ever raised."""

    class Processes:
        def ask(self, question: object) -> Answer:  # noqa: ARG002
            return answer

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for node, properties in nodes.items():
            path = root / f"sys/class/kfd/kfd/topology/nodes/{node}/properties"
            path.parent.mkdir(parents=True)
            path.write_bytes(properties.encode("utf-8", "surrogatepass"))
        for name in (
            "opt/rocm/.info/version",
            "usr/local/Ascend/driver/version.info",
            "usr/local/Ascend/cann/version.cfg",
            "usr/bin/rocminfo",
            "usr/bin/npu-smi",
            "dev/kfd",
            "dev/davinci0",
        ):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        machine = Machine(
            SystemView(root, {"PATH": "/usr/bin"}, system="Linux", processes=Processes())
        )
        for namespace in ("amd", "ascend"):
            detection = machine.detect(namespace)
            assert detection is not None
            check(detection)
            assert not any("Error" in warning for warning in detection.warnings)
