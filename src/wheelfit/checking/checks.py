"""The table of checks; docs/reference/checks.md explains each with examples.

A document's own faults come from `wheelfit.core.metadata.check_document` with their rule;
`DOCUMENT_CHECKS` maps rules to checks.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.checking.findings import Check, CheckTable

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKS = CheckTable()
"""Every check by its code, in the order of the reference."""

# Columns: code and rule, meaning, remedy.
# fmt: off

# --- documents: their form ------------------------------------------------------------

UNREADABLE_DOCUMENT = CHECKS.error("unreadable-document", "F-30",
    "the document is not plain JSON, has a key twice, or exceeds a limit",
    "write UTF-8 JSON without byte order mark, with every key once")
UNSUPPORTED_SCHEMA = CHECKS.error("unsupported-schema", "F-36",
    "the schema URL has an unknown host name or version, so readers must refuse the document",
    "write the schema of PEP 850 v0.2.0 or PEP 825 v0.1.1")
WRONG_KEYS = CHECKS.error("wrong-keys", "F-20",
    "a required key is missing, or a key is unknown",
    "add the key, or remove it: some tools drop the whole release because of one")
WRONG_TYPE = CHECKS.error("wrong-type", "F-32",
    "a value has another JSON type than the format requires",
    "write the type that the reference of documents names")
INVALID_NAME = CHECKS.error("invalid-name", "F-2",
    "a namespace, feature, value or label has characters that are not allowed",
    "use lower-case ASCII letters, digits and '_' only, in values and labels also '.'")
RESERVED_LABEL = CHECKS.error("reserved-label", "F-4",
    "the label consists of dots, or is the name of a device on Windows",
    "choose another label")
NULL_WITH_PROPERTIES = CHECKS.error("null-with-properties", "F-6",
    "the label null has properties, although it stands for none",
    "give the variant another label, or remove its properties")
LABEL_WITHOUT_PROPERTIES = CHECKS.error("label-without-properties", "F-7",
    "a label other than null has no properties",
    "use the label null")
BAD_PRIORITIES = CHECKS.error("bad-priorities", "F-21",
    "the priorities are not a list of distinct namespaces, or lack one that is used",
    "list every namespace in use once, most important first")
PROVIDERS_DIFFER = CHECKS.error("providers-differ", "F-22",
    "the namespaces with a provider are not the namespaces of the priorities",
    "give each namespace of the priorities a provider, and no other")
BAD_VALUES = CHECKS.error("bad-values", "F-23",
    "a list of values is empty, not in ascending order, or names one twice",
    "sort the list by code point and name each value once")
EMPTY_NAMESPACE = CHECKS.error("empty-namespace", "F-25",
    "a variant names a namespace without any feature",
    "remove the empty object")
PROVIDERS_NOT_ALLOWED = CHECKS.error("providers-not-allowed", "F-42",
    "a document of PEP 825 has providers, which are outside its schema",
    "write the schema of PEP 850")
BAD_PROVIDER = CHECKS.error("bad-provider", "P-1",
    "a provider entry breaks its rules, so its namespace counts as unsupported",
    "give it exactly one of static-properties, requires and builtin, with its further keys")
BAD_ABI_VALUE = CHECKS.error("bad-abi-value", "P-47",
    "an ABI dependency names no project, or no release of one",
    "write the project as in dist-info folders, and one to three plain numbers")
INVALID_DOCUMENT = CHECKS.error("invalid-document", "F-131",
    "the document breaks another rule of its layout",
    "follow the rule named")
WRONG_LABEL = CHECKS.error("wrong-label", "F-24",
    "the document inside a wheel does not have exactly the label of the file name",
    "rename the wheel, or write the document for its label only")

# The checks above by their rules, and by further rules that they cover.
DOCUMENT_CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        **{check.rule: check for check in CHECKS.values() if check is not WRONG_LABEL},
        **dict.fromkeys(("F-38", "F-40"), UNSUPPORTED_SCHEMA),
        **dict.fromkeys(("F-47", "F-51", "F-52", "F-109"), BAD_PROVIDER),
        **dict.fromkeys((f"P-{number}" for number in range(1, 10)), BAD_PROVIDER),
        "F-130": WRONG_KEYS,
        "P-46": BAD_ABI_VALUE,
    }
)
"""The check for each rule of `wheelfit.core.metadata.check_document`."""

# --- documents: their content -----------------------------------------------------------

OLD_LAYOUT = CHECKS.warning("old-layout", "F-39",
    "the document has a layout of an earlier draft, which many tools do not read",
    "convert it to PEP 850 v0.2.0")
NO_PROVIDERS = CHECKS.warning("no-providers", "F-39",
    "the document has no providers, so no tool can detect what a machine supports",
    "write the layout of PEP 850 with a provider for each namespace")
UNSELECTABLE_VARIANT = CHECKS.error("unselectable-variant", "F-28",
    "no machine can ever select the variant: its provider does not offer its properties",
    "use the same feature and values in the variant and the provider")
DEAD_VALUE = CHECKS.warning("dead-value", "F-28",
    "a value is not in the static list of its feature, so it is never supported",
    "add it to the static list, or remove it from the variant")
UNUSED_LIST = CHECKS.warning("unused-list", "P-3",
    "a static list has a namespace or feature that no variant uses",
    "remove it, or correct the variants that should use it")
UNKNOWN_FEATURE = CHECKS.warning("unknown-feature", "P-28",
    "the published provider of the namespace has no such feature",
    "use a feature that the provider offers")
UNKNOWN_VALUE = CHECKS.warning("unknown-value", "P-28",
    "neither the published provider nor wheelfit ever offers the value",
    "use a value that the provider offers, or remove it")
UNPUBLISHED_VALUE = CHECKS.note("unpublished-value", "P-41",
    "wheelfit offers the value, the published provider does not, so other tools ignore it",
    "keep a value beside it that the published provider offers")
DISPUTED_SPELLING = CHECKS.warning("disputed-spelling", "P-110",
    "the published aarch64 provider misspells the feature, so tools disagree about it",
    "use the feature version instead, which every tool supports")
SEVERAL_VALUES = CHECKS.warning("several-values", "P-30",
    "the feature takes one value per wheel, and several are listed",
    "list the one value that the wheel was built for")
VENDOR_STATIC_LIST = CHECKS.warning("vendor-static-list", "P-20",
    "a static list claims hardware support on every machine, without asking it",
    "name the provider package of the vendor instead")
UNRECOGNISED_PROVIDER = CHECKS.warning("unrecognised-provider", "P-63",
    "the provider of a hardware namespace is unknown to tools",
    "write package, version range and plugin-api as in the reference of providers")
NEEDS_TRUST = CHECKS.note("needs-trust", "P-14",
    "the provider is a package that users must trust before any of its variants is chosen",
    "use static-properties if the values do not depend on the machine")
LOOKALIKE_NAMESPACE = CHECKS.warning("lookalike-namespace", "P-63",
    "the namespace looks like a well-known one, or like another one of the document",
    "use the well-known name if you mean it, otherwise a more distinct one")
SAME_PROPERTIES = CHECKS.warning("same-properties", "F-8",
    "two labels have the same properties, so only one of them is ever chosen",
    "keep one label, or correct the properties of the other")
SIMILAR_LABEL = CHECKS.warning("similar-label", "F-8",
    "the label looks like a misspelling of another one, or of its own properties",
    "correct the label in the file names and the documents")
STALE_LABEL = CHECKS.warning("stale-label", "F-143",
    "the label looks like a hash, and is not the one of its properties",
    "derive the label again, or choose a readable one")
LONG_LABEL = CHECKS.warning("long-label", "F-3",
    "the label is too long for readable file names, or for older tools",
    "choose at most 32 characters; older tools allow 16")

# --- wheels ----------------------------------------------------------------------------

INVALID_FILENAME = CHECKS.error("invalid-filename", "F-12",
    "the file has the extension of a wheel, but not a valid wheel name",
    "name it name-version[-build]-python-abi-platform[-label].whl")
UNUSUAL_FILENAME = CHECKS.warning("unusual-filename", "F-17",
    "name or version in the file name are not normalised",
    "use the name that a build tool gives the file")
LONG_FILENAME = CHECKS.error("long-filename", "F-3",
    "the file name is longer than file systems allow",
    "choose a shorter label")
UNSOUND_ARCHIVE = CHECKS.error("unsound-archive", "B-34",
    "the file is not a wheel, or a ZIP archive that readers understand differently",
    "build the wheel again; do not edit wheels with general ZIP tools")
UNPORTABLE_NAME = CHECKS.warning("unportable-name", "B-34",
    "a member has a name that is invalid on Windows, or equal to another one if case is ignored",
    "rename it; only wheels for Windows alone are refused for that")
DAMAGED_CONTENT = CHECKS.error("damaged-content", "B-38",
    "the content of a member differs from its checksum in the archive or RECORD",
    "build the wheel again, or rewrite RECORD")
BAD_RECORD = CHECKS.error("bad-record", "B-36",
    "RECORD does not list exactly the files of the wheel, each with hash and size",
    "rewrite RECORD; `python -m wheel pack` does it")
RECORD_LEADS_OUT = CHECKS.error("record-leads-out", "B-34",
    "RECORD lists a file outside the wheel, which installing refuses",
    "remove the row; RECORD lists members of the wheel and nothing else")
SIGNED_RECORD = CHECKS.note("signed-record", "B-37",
    "RECORD has a signature, which any change of the wheel makes invalid",
    "remove the signature, which installers ignore")
MISSING_DOCUMENT = CHECKS.error("missing-document", "F-27",
    "the wheel has a label and no variant.json",
    "make the wheel again with a variant.json that has its label")
DOCUMENT_IN_PLAIN_WHEEL = CHECKS.note("document-in-plain-wheel", "F-10",
    "a wheel without label has a variant.json, which has no effect",
    "add the label to the file name, or remove the file")
WRONG_METADATA = CHECKS.error("wrong-metadata", "B-34",
    "METADATA cannot be read, or names another project or version than the file name",
    "build the wheel again")
REPEATED_METADATA = CHECKS.error("repeated-metadata", "B-34",
    "METADATA has a field twice that is allowed once, and readers use different ones",
    "build the wheel again, with one line for each")
INVALID_REQUIREMENT = CHECKS.error("invalid-requirement", "F-105",
    "a Requires-Dist is invalid, or has an invalid variant marker",
    "correct the dependency; the literal must be to the left of the variant sets")
VARIANT_MARKER_IN_PLAIN_WHEEL = CHECKS.error("variant-marker-in-plain-wheel", "B-40",
    "a plain wheel has variant markers, because of which no other installer can install it",
    "resolve them with `wheelfit wheel repack --resolve-markers`")
MARKER_NEVER_MATCHES = CHECKS.warning("marker-never-matches", "F-106",
    "a variant marker compares with a text that can never match",
    "write namespace, namespace :: feature or namespace :: feature :: value, in lower case")
UNDECLARED_IN_MARKER = CHECKS.warning("undeclared-in-marker", "F-107",
    "a variant marker names a property that no variant of the release declares",
    "correct the marker, or remove the dependency")
UNKNOWN_CLASSIFIER = CHECKS.warning("unknown-classifier", "B-34",
    "METADATA has an unknown classifier, so the public registry refuses the wheel",
    "correct it, or leave it out; a newer trove-classifiers may know it")
DEPRECATED_CLASSIFIER = CHECKS.note("deprecated-classifier", "B-34",
    "METADATA has a deprecated classifier, so the public registry refuses the wheel",
    "use its replacement")
ABI_CONTRADICTION = CHECKS.error("abi-contradiction", "P-58",
    "the dependencies exclude a version that the variant claims to be built for",
    "widen the requirement to every release that the variant lists")
ABI_NOT_REQUIRED = CHECKS.warning("abi-not-required", "P-58",
    "the variant is built for versions of a project that it does not depend on",
    "add the project to the dependencies")
STARTUP_CODE = CHECKS.note("startup-code", "B-34",
    "the wheel has a file that runs code whenever Python starts",
    "make sure that this is intended; some policies refuse such wheels")
BAD_SCRIPT = CHECKS.error("bad-script", "B-34",
    "a script or a data file has a destination that is not allowed",
    "correct the entry point, or the folder under .data")
RESERVED_FILE = CHECKS.error("reserved-file", "B-34",
    "the wheel has a file that no wheel may install",
    "remove it from the wheel; document for users what to change instead")

WRONG_WHEEL_TAGS = CHECKS.error("wrong-wheel-tags", "F-15",
    "WHEEL has other tags than the file name, and tools that check environments read WHEEL",
    "build the wheel again, or change both with `python -m wheel tags`")
NATIVE_CODE_FOR_ANY = CHECKS.error("native-code-for-any", "F-15",
    "a wheel for any platform has a module that only one platform can import",
    "build a wheel for each platform, or leave the module out")
FOREIGN_EXTENSION = CHECKS.error("foreign-extension", "F-15",
    "an extension module is built for another Python than that of the tags",
    "build it with the Python of the tag, or correct the tag")
GENERIC_TOP_LEVEL = CHECKS.warning("generic-top-level", "B-34",
    "folders or files of the source tree would be installed at the top level of site-packages",
    "leave tests and docs out of the wheel, or move them into the package")
COMPILED_PYTHON = CHECKS.warning("compiled-python", "B-34",
    "the wheel has compiled Python code, which at most one version of Python can use",
    "leave __pycache__ and .pyc files out of the wheel")
WRONG_ABI_EXPORTS = CHECKS.error("wrong-abi-exports", "B-61",
    "the declared ABI exports cannot be read, or name a library that the wheel lacks",
    "correct [variant.abi-exports], and build again or use `wheelfit wheel repack --exports`")

# --- binaries ----------------------------------------------------------------------------

NO_SUCH_CODE = CHECKS.error("no-such-code", "B-60",
    "the wheel claims code for a GPU, and its binaries have none that runs there",
    "build with that architecture, or remove the value")
UNCLAIMED_CODE = CHECKS.note("unclaimed-code", "B-60",
    "the binaries have code for a GPU that no claimed value covers",
    "add the value, or build without that architecture")
NO_SM_ARCH = CHECKS.warning("no-sm-arch", "P-95",
    "the binaries have code for GPUs, and the variant claims no sm_arch",
    "claim sm_arch; `wheelfit wheel inspect` shows the values")
WRONG_CUDA_BOUND = CHECKS.error("wrong-cuda-bound", "P-93",
    "the lower bound of the driver admits drivers that cannot run the wheel's code",
    "claim the CUDA major of the libraries, or if a GPU has only PTX, the compiler's CUDA version")
LEVEL_TOO_LOW = CHECKS.error("level-too-low", "P-102",
    "a binary refuses to load on processors that the wheel claims to support",
    "claim the level that the binary was linked for, or link it for a lower one")
UNGUARDED_CODE = CHECKS.error("unguarded-code", "P-102",
    "code of a higher x86-64 level than the wheel claims runs on any processor",
    "build without flags as -march=native, or claim the level")
FOREIGN_BINARY = CHECKS.error("foreign-binary", "F-15",
    "the binaries are for another machine or system than that of the platform tag",
    "correct the platform tag, or build for that platform")
PLATFORM_TOO_OLD = CHECKS.error("platform-too-old", "F-15",
    "the platform tag admits systems that are too old for a binary",
    "build on an older system, or claim a newer one")
EXTERNAL_LIBRARY = CHECKS.warning("external-library", "F-15",
    "a binary needs a library that is neither in the wheel nor on every system of the tag",
    "put it into the wheel with auditwheel, or depend on a package with it")
OUTSIDE_STABLE_ABI = CHECKS.warning("outside-stable-abi", "F-15",
    "a wheel for the stable ABI uses functions outside of it, or missing in its oldest Python",
    "build with Py_LIMITED_API set to the Python of the tag, or name a newer one in the tag")
RPATH_LEADS_OUT = CHECKS.warning("rpath-leads-out", "B-34",
    "a binary looks for libraries in a folder outside of the Python environment",
    "make the folder relative, as $ORIGIN/../fast.libs, with auditwheel or patchelf")
DEBUG_SYMBOLS = CHECKS.warning("debug-symbols", "B-34",
    "the wheel has more than a megabyte of debug information, which every user downloads",
    "strip the binaries, and publish the debug information apart")
BUILD_PATH = CHECKS.note("build-path", "B-34",
    "a binary names folders of the machine where it was built",
    "build with -ffile-prefix-map=$PWD=. (Rust: --remap-path-prefix)")
UNREADABLE_BINARY = CHECKS.warning("unreadable-binary", "B-60",
    "a binary cannot be read, or only in part, so it was not fully checked",
    "build it again; if it can be loaded, report the finding")

# --- releases --------------------------------------------------------------------------

NO_PLAIN_WHEEL = CHECKS.warning("no-plain-wheel", "A-2",
    "a release with variants has no plain wheel, so other installers find nothing",
    "publish a plain wheel too")
NO_INDEX_FILE = CHECKS.note("no-index-file", "F-70",
    "a release with variants has no -variants.json; an index must list one",
    "generate it from the wheels before the release is published")
DUPLICATE_INDEX_FILE = CHECKS.error("duplicate-index-file", "F-78",
    "there are several index files of one release, so clients may ignore them all",
    "keep the one with the normalised name of the wheels")
MISSPELT_INDEX_FILE = CHECKS.warning("misspelt-index-file", "F-70",
    "name or version in the name of an index file are not spelled as in wheel names",
    "rename the file")
CLAIMS_DISAGREE = CHECKS.error("claims-disagree", "F-93",
    "a wheel has other properties than in the index file, so installers reject it",
    "generate the index file again from the wheels")
LABEL_NOT_IN_INDEX = CHECKS.error("label-not-in-index", "F-73",
    "the index file lacks the label of a wheel, so the wheel may be ignored",
    "generate the index file again from the wheels")
LABEL_WITHOUT_WHEEL = CHECKS.warning("label-without-wheel", "F-73",
    "the index file has a label that no wheel has",
    "generate the index file again from the wheels, or add the wheel")
INCONSISTENT_WHEELS = CHECKS.error("inconsistent-release", "F-65",
    "files of one release contradict each other about priorities, providers or a label",
    "build all wheels of a release from one description of its variants")
DUPLICATE_LIBRARY = CHECKS.note("duplicate-library", "B-34",
    "variants of one release have the same libraries, which one package could carry for all",
    "split the package: docs/how-to/split-a-package.md shows how")

# --- indexes ---------------------------------------------------------------------------

FORBIDDEN_ATTRIBUTE = CHECKS.error("forbidden-attribute", "F-72",
    "the entry of an index file has attributes that only wheels may have",
    "publish its name, URL, hash and size, and nothing else")
NO_HASH = CHECKS.note("no-hash", "F-71",
    "an index file is listed without a hash",
    "publish its hash, and change both together")
WRONG_HASH = CHECKS.error("wrong-hash", "F-79",
    "a file has another hash or size than on the page, so clients refuse it",
    "publish page and file together")
MISSING_FILE = CHECKS.error("missing-file", "F-79",
    "a file is listed, but cannot be fetched",
    "publish the file, or remove it from the page")
METADATA_DIFFERS = CHECKS.error("metadata-differs", "F-95",
    "the METADATA served beside a wheel is not the one inside it, so installers refuse it",
    "extract it from the wheel again")
STRANGE_ENTRY = CHECKS.warning("strange-entry", "F-131",
    "an entry of an index page is invalid, so clients skip it",
    "correct or remove the entry")
STRANGE_ANSWER = CHECKS.warning("strange-answer", "F-136",
    "the index gives an answer that installers interpret differently",
    "make the server answer 404 for missing files, and serve all files that its pages list")
UNHASHED_FILES = CHECKS.warning("unhashed-files", "F-71",
    "files are listed without a hash, so downloads cannot be verified",
    "publish the SHA-256 of every file")
UNMET_PIN = CHECKS.error("unmet-pin", "F-92",
    "a wheel requires a version that no index has, so it cannot be installed",
    "publish that version again, or name the index that has it with --index-url")
NO_KNOWN_MACHINE = CHECKS.warning("no-known-machine", "F-28",
    "no machine among the presets of wheelfit supports the variant",
    "correct the properties; no hardware, driver or toolkit supports them together")
SHADOWED_VARIANT = CHECKS.warning("shadowed-variant", "F-66",
    "wherever the variant fits, another label ranks above it, so it is never chosen by default",
    "remove the variant, or distinguish it by properties or priorities")

# --- profile uv ------------------------------------------------------------------------

UV_SCHEMA = CHECKS.error("uv-schema", "F-150",
    "uv 0.13.8 requires the layout and the schema of PEP 850 v0.2.0",
    "convert the document")
UV_PROVIDERS = CHECKS.error("uv-providers", "F-152",
    "uv 0.13.8 asks the providers in each document, and a namespace has none",
    "put the providers of the release into every document")
UV_PROVIDER = CHECKS.error("uv-provider", "F-153",
    "uv 0.13.8 does not recognise the provider, so it supports none of its properties",
    "write the provider as in the remedy of the finding")
UV_VERSION_RANGE = CHECKS.error("uv-version-range", "P-61",
    "the range of provider versions excludes the one that uv 0.13.8 has built in",
    "widen the range until it admits that version")
UV_UNSUPPORTED = CHECKS.warning("uv-unsupported", "F-153",
    "uv 0.13.8 has no such provider, so it never chooses the variants that need it",
    "keep variants, or a plain wheel, without that namespace")
UV_NULL = CHECKS.error("uv-null", "F-26",
    "uv 0.13.8 skips a null wheel whose label the index file does not have",
    "list null with an empty object")
UV_INDEX_FILE = CHECKS.error("uv-index-file", "F-151",
    "uv 0.13.8 needs the index file, under its normalised name and beside the wheels",
    "write the file, put it beside the wheels, and update its hash on the page")
UV_PYTHON = CHECKS.warning("uv-python", "F-94",
    "uv 0.13.8 chooses the label first, so one wheel for other Pythons makes it skip the release",
    "give all wheels of a release the same Requires-Python")
UV_MARKERS = CHECKS.error("uv-markers", "F-154",
    "uv 0.13.8 and pip skip a release whose metadata has variant markers",
    "resolve the markers for each wheel when building")

# --- profile pypi ----------------------------------------------------------------------

PYPI_VARIANT_WHEEL = CHECKS.error("pypi-variant-wheel", "B-53",
    "the registry refuses wheels with a label",
    "publish variants on an index of your own")
PYPI_INDEX_FILE = CHECKS.error("pypi-index-file", "B-53",
    "the registry refuses -variants.json files",
    "publish variants on an index of your own")
PYPI_FILE_SIZE = CHECKS.error("pypi-file-size", "B-53",
    "the file is larger than the 100 MB that the registry accepts by default",
    "ask for a higher limit before the release, or make the wheel smaller")
PYPI_PROJECT_SIZE = CHECKS.warning("pypi-project-size", "B-53",
    "all files together exceed the 10 GB that the registry allows a project by default",
    "remove old files, or ask for a higher limit")
PYPI_CLOSED_RELEASE = CHECKS.warning("pypi-closed-release", "B-53",
    "the release is older than 14 days, so the registry accepts no more files for it",
    "publish all wheels of a release at once, or a new version")
PYPI_PLATFORM = CHECKS.error("pypi-platform", "B-53",
    "the registry refuses wheels for a plain Linux platform",
    "build on an image for manylinux or musllinux, and repair the wheel")
PYPI_ARCHIVE = CHECKS.error("pypi-archive", "B-53",
    "the registry refuses archives with data descriptors, or with another dist-info spelling",
    "build the wheel with a current build tool")
