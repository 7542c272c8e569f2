"""The libraries that need not be in a wheel for Windows: of the system, of Python, of drivers.

Windows has no list of what it promises, so this one has what every edition since 10 has and
binaries in published wheels load.
"""

from __future__ import annotations

from wheelfit_runtime.patterns import pattern

_WINDOWS = frozenset(
    """
    aclui activeds advapi32 authz avicap32 avifil32 avrt bcrypt bcryptprimitives cabinet
    cfgmgr32 combase comctl32 comdlg32 credui crypt32 cryptbase cryptnet cryptsp cryptui d2d1
    d3d10 d3d10_1 d3d11 d3d12 d3d9 d3dcompiler_47 davclnt dbgeng dbghelp dcomp ddraw dhcpcsvc
    dinput8 dnsapi dsound dwmapi dwrite dxcore dxgi dxva2 esent evr faultrep fwpuclnt gdi32
    gdi32full gdiplus glu32 hid hlink httpapi icmp icu icuin icuuc imagehlp imm32 inetcpl
    iphlpapi kernel32 kernelbase ksuser ktmw32 loadperf logoncli lz32 magnification mf mfplat
    mfplay mfreadwrite mfuuid mlang mmdevapi mpr msacm32 mscms mscoree msdmo msi msimg32
    mspatcha mstask msvcp_win msvcrt msvfw32 mswsock ncrypt ndfapi netapi32 netutils newdev
    ninput normaliz ntdll ntdsapi ntmarta odbc32 odbccp32 ole32 oleacc oleaut32 oledlg opengl32
    pdh powrprof profapi propsys psapi query qwave rasapi32 resutils rpcns4 rpcrt4 rstrtmgr
    samcli sas schannel sechost secur32 security sensapi setupapi sfc shcore shell32 shfolder
    shlwapi snmpapi spoolss srvcli sspicli synchronization t2embed tapi32 taskschd tbs tdh
    traffic twinapi txfw32 ucrtbase uiautomationcore urlmon user32 userenv usp10 uxtheme version
    virtdisk vssapi wdsclientapi webauthn webservices wer wevtapi wimgapi win32u windows.storage
    windowscodecs winhttp wininet winmm winscard winspool.drv winsta wintrust wkscli wlanapi
    wldap32 wldp wow32 ws2_32 wsnmp32 wsock32 wtsapi32 xinput1_4 xinput9_1_0 xmllite xolehlp
    xpsprint
    """.split()  # noqa: SIM905  # a list of words is read more easily as text
)
_CONTRACTS = pattern(r"(?:api|ext)-ms-.*\.dll")
_PYTHON = pattern(r"(?:python3\d*t?|vcruntime140(?:_1)?)\.dll")
"""What the installation of Python has itself."""
_RUNTIME = pattern(r"(?:msvcp140(?:_\w+)?|concrt140|vcomp140|vccorlib140|mfc140u?)\.dll")
"""What comes with the Visual C++ runtime, which many machines have and not every one."""
_DRIVERS = pattern(
    r"(?:nvcuda|nvml|nvcuvid|nvencodeapi64|nvoptix|opencl|ze_loader|amdhip64(?:_\d+)?|vulkan-1)\.dll"
)


def origin_of(name: str) -> str | None:
    """Return where a library comes from that a wheel may leave out; None: nobody promises it.

    >>> origin_of("KERNEL32.dll"), origin_of("msvcp140.dll"), origin_of("zlib1.dll")
    ('Windows', 'the Visual C++ runtime', None)
    """
    name = name.lower()
    if name.removesuffix(".dll") in _WINDOWS or _CONTRACTS.fullmatch(name):
        return "Windows"
    if _PYTHON.fullmatch(name):
        return "Python"
    if _RUNTIME.fullmatch(name):
        return "the Visual C++ runtime"
    return "drivers" if _DRIVERS.fullmatch(name) else None
