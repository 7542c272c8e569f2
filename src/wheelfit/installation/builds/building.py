"""Wheels that are built from source distributions, folders and checkouts."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import structs

from wheelfit.core.durations import duration_in_words
from wheelfit.core.filename import parse_wheel_filename, wheel_filename_of
from wheelfit.errors import BuildFailed, InvalidRequirement, SourceBuildNotAllowed
from wheelfit.installation.builds.cache import BuiltWheel, BuiltWheels
from wheelfit.installation.builds.products import Product, bare_metadata, checked_metadata
from wheelfit.installation.builds.projects import OpenProject, open_listed, open_named, state_of
from wheelfit.projects.backend import Backend, BackendProcesses
from wheelfit.projects.static_metadata import core_metadata_of, is_reliable, read_pyproject_name
from wheelfit.resolution.listing import provisional_filename
from wheelfit.resolution.request import DirectSource, DirectWheel
from wheelfit.sources.cache import built_metadata_key, built_wheel_key, declared_metadata_key
from wheelfit.sources.hash_check import WEAK_HASHES
from wheelfit.sources.page import File, ProjectPage, WheelOrigin
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.repository import READ_LIMIT, FileSize, Repository
from wheelfit.sources.urls import redact
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.bytes_source import ByteSource, open_local
from wheelfit.wheels.record import sha256_of_file
from wheelfit.wheels.unpacking import unpack
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.installation.builds.consent import BuildPolicy
    from wheelfit.installation.builds.environments import BuildEnvironmentFactory
    from wheelfit.wheels.unpacked import UnpackedWheel

_MAX_FETCHED_SIZE = 64 << 20
"""Bytes of the largest source distribution that is fetched only to read its metadata."""


class WheelBuilder:
    """A reader of files (``Files``) that builds wheels, one at a time, for several threads.

    Every file that is given to it must have an ``origin``.

    :param repository: has the source distributions.
    :param scratch: returns a context with a temporary folder; called when one is needed.
    :param echo: called with every line a backend prints; None: it goes only into the log.
    """

    def __init__(
        self,
        repository: Repository,
        environment_factory: BuildEnvironmentFactory,
        cache: BuiltWheels,
        policy: BuildPolicy,
        *,
        environ: Mapping[str, str],
        scratch: Callable[[], AbstractContextManager[Path]],
        tell: Callable[[str], None] = lambda _text: None,
        echo: Callable[[str], None] | None = None,
    ) -> None:
        self._repository = repository
        self._environment_factory = environment_factory
        self._cache = cache
        self.policy = policy
        self._environ = environ
        self._tell = tell
        self._echo = echo
        self._children = BackendProcesses()
        self._build_lock = threading.RLock()
        """Held by the thread that builds, which may acquire it again to build a dependency."""
        self._being_prepared: list[str] = []
        """Names of the projects whose builds are in preparation, each needed by the one before."""
        self._products: dict[tuple[str, str], Product] = {}
        """The products by URL and by the file name that is listed."""
        self._products_lock = threading.Lock()
        """Locked only briefly, since pages are read during a build."""
        self._allowed: set[NormalizedName] = set()
        """Projects to which the user consented at a prompt."""
        self._named: dict[DirectSource, Product] = {}
        """The products of the projects that the user named."""
        self._scratch = scratch
        self._folder: Path | None = None
        self._folder_lock = threading.Lock()
        self._stack = ExitStack()

    def close(self) -> None:
        """End running children, and remove all temporary files."""
        self._children.close()
        self._stack.close()

    # --- projects named by the user ---------------------------------------------------------

    def direct_wheel(self, source: DirectSource) -> DirectWheel:
        """Return the wheel of a project that the user named, built or not.

        Its files are fetched, and its metadata is read or requested from the backend; a wheel is
        built only if it must be.

        :raises BuildFailed: its backend failed.
        :raises SourceBuildNotAllowed: its backend would have to run, and that is not allowed.
        :raises FileProblem: there is no project.
        :raises InvalidRequirement: it is another project than the requirement names.
        :raises IntegrityError: its hash is not the promised one.
        :raises NetworkError: it cannot be fetched.
        :raises UserError: hashes are required, and it has none.
        """
        if self.policy.requires_hashes and all(kind in WEAK_HASHES for kind, _ in source.hashes):
            raise UserError(
                f"hashes are required, and {source.name or redact(source.url)} has none",
                where=source.where or None,
                hint="name an archive with its hash; a folder or a repository has none",
            )
        with self._build_lock:
            product = self._named.get(source)
            if product is None:
                product = self._named[source] = self._open_named(source)
            return DirectWheel(product.file, source.extras, source.where)

    def _open_named(self, source: DirectSource) -> Product:
        project = open_named(
            source,
            self._repository,
            self._new_folder("named"),
            self._environ,
            offline=self.policy.offline,
        )
        product = Product(File("", project.url), lambda: project, is_named=True, project=project)
        core = core_metadata_of(self._metadata(product), project.name)
        if source.name is not None and core.name != source.name:
            raise InvalidRequirement(
                f"the project is {core.name}, not {source.name}",
                source=f"{source.name} @ {redact(source.url)}",
                where=source.where or None,
            )
        product.file = File(
            provisional_filename(core.name, core.version),
            project.url,
            project.hashes,
            source="the request",
            origin=WheelOrigin(project.name, project.direct_url),
        )
        self._register(product)
        if product.wheel is not None:  # its metadata could only be read by building it
            self._list_by_real_name(product)
        return product

    # --- Files -------------------------------------------------------------------------------

    def with_built_wheels(self, page: ProjectPage) -> ProjectPage:
        """Return a page with the wheels built so far in place of their source distributions."""
        built = self._built_files(page.name)
        if not built:
            return page
        return structs.replace(page, files=tuple(built.get(file.url, file) for file in page.files))

    def _built_files(self, name: NormalizedName) -> Mapping[str, File]:
        """Return the wheels built from listed source distributions, by the URLs of these."""
        with self._products_lock:
            return {
                product.file.url: product.file
                for product in self._products.values()
                if product.wheel is not None
                and not product.is_named
                and parse_wheel_filename(product.file.filename).name == name
            }

    def _register(self, product: Product) -> None:
        with self._products_lock:
            self._products[product.file.url, product.file.filename] = product

    def _product(self, file: File) -> Product:
        """Return the product of a wheel that must be or was built."""
        archive = _source_of(file)

        def open_source() -> OpenProject:
            return open_listed(archive, self._repository, self._new_folder("listed"))

        with self._products_lock:
            return self._products.setdefault((file.url, file.filename), Product(file, open_source))

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file."""
        return self._repository.read(file, limit=limit)

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel; of an unbuilt one, the METADATA it will have.

        If an unbuilt wheel has no static metadata and may not be built, the result has only its
        name and version.
        """
        product = self._product(file)
        static_metadata = self._static_metadata(product)
        if static_metadata is not None:
            return static_metadata
        if not product.is_named and not self._is_allowed(product):
            return bare_metadata(product.file)
        with self._build_lock:
            return self._metadata(product)

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel."""
        wheel = self._built(self._product(file))
        filename = parse_wheel_filename(wheel.filename)
        if not filename.is_variant:  # F-10
            return None
        with WheelArchive(wheel.path, filename) as archive:
            return archive.variant_document()

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return the size of a wheel; of a wheel built here that of its source."""
        del unpacked
        product = self._product(file)
        # What the user named was fetched when its metadata was read.
        is_on_disk = file.is_local or product.is_named or product.wheel is not None
        return FileSize(file.size, is_on_disk=is_on_disk, why_unknown="it is built here first")

    def open(self, file: File) -> ByteSource:
        """Return the bytes of a wheel, building it if need be."""
        return open_local(self._built(self._product(file)).path)

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Copy a wheel into a folder, building it if need be; return its path there."""
        del progress  # nothing is received
        wheel = self._built(self._product(file))
        return Path(shutil.copyfile(wheel.path, folder / wheel.filename))

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Return a wheel unpacked and verified, building it if need be."""
        del progress  # nothing is received
        product = self._product(file)
        wheel = self._built(product)
        digest = sha256_of_file(wheel.path)
        if product.opened().identity is not None:
            hashes = MappingProxyType({"sha256": digest})
            url = wheel.path.absolute().as_uri()
            local = File(wheel.filename, url, hashes, source="built here")
            return self._repository.unpacked(local, folder)
        # The content of a folder may change at any time, so no cache keeps it.
        folder_of_wheel = Path(tempfile.mkdtemp(prefix="built-", dir=folder))
        filename = parse_wheel_filename(wheel.filename)
        with WheelArchive(wheel.path, filename, where=redact(file.url)) as archive:
            return unpack(archive, folder_of_wheel, sha256=digest)

    # --- consent -------------------------------------------------------------------------------

    def needs_consent(self, file: File) -> bool:
        """Return whether building a wheel needs consent that the user has not given."""
        product = self._product(file)
        return not product.is_named and not self._is_allowed(product)

    def has_requirements(self, file: File) -> bool:
        """Return whether the requirements of a wheel are known before it is built."""
        return self._static_metadata(self._product(file)) is not None

    def allow(self, names: Iterable[NormalizedName]) -> None:
        """Allow builds of the source distributions of some projects."""
        self._allowed.update(names)

    def _is_allowed(self, product: Product) -> bool:
        if self.policy.why_impossible:
            return False
        name, consent = parse_wheel_filename(product.file.filename).name, self.policy.consent
        if name in consent.names or name in self._allowed:
            return True
        if consent.mode != "always":
            return False
        # For a project with variants it would be the plain build, which the user did not request.
        page = self._repository.project(name)
        filenames = [wheel_filename_of(file.filename) for file in page.files] if page else []
        return not any(filename.is_variant for filename in filenames if filename is not None)

    # --- building ------------------------------------------------------------------------------

    def build(self, file: File) -> File:
        """Build a wheel, and return it as it is listed from then on, by its real name.

        :raises BuildFailed: its backend failed, or built something else.
        """
        product = self._product(file)
        with self._build_lock:
            self._built(product)
            self._list_by_real_name(product)
        return product.file

    def _list_by_real_name(self, product: Product) -> None:
        origin = product.file.origin
        if product.wheel is None or origin is None:  # pragma: no cover - it was built just now
            raise ValueError(product.file)
        product.file = structs.replace(
            product.file,
            filename=product.wheel.filename,
            requires_python=None,  # its own metadata decides
            origin=structs.replace(origin, is_built=True),
        )
        self._register(product)

    def _static_metadata(self, product: Product) -> bytes | None:
        """Return the metadata of a product if it is known without running code."""
        if product.metadata is None:
            data = self._index_metadata(product) or self._cached_metadata(product)
            if data is None and not self._is_too_large(product):
                # This opens the source. If no hash of it is listed, its cache key is known only
                # now, so the cache is read again.
                data = self._declared_metadata(product) or self._cached_metadata(product)
            if data is not None and product.project is not None:
                product.project.check(data)
            product.metadata = data
        return product.metadata

    def _index_metadata(self, product: Product) -> bytes | None:
        """Return the metadata that an index serves beside a source distribution (PEP 714)."""
        file = product.file
        if file.metadata_hashes is None or product.is_named:
            return None
        data = self._repository.metadata(_source_of(file))
        return data if is_reliable(data) else None

    def _declared_metadata(self, product: Product) -> bytes | None:
        """Return the metadata that a source declares.

        For an archive of an index, the metadata or its absence is cached: a large archive takes
        seconds to unpack.
        """
        sha256 = product.file.hashes.get("sha256")
        if product.is_named or product.project is not None or sha256 is None:
            return product.opened().metadata
        key = declared_metadata_key(product.file.filename, sha256)
        data = self._cache.metadata(key)
        if data is None:
            project = product.opened()
            data = project.metadata or b""
            if data:
                project.check(data)
            self._cache.store_metadata(key, data, {"source": redact(project.url)})
        return data or None

    def _cached_metadata(self, product: Product) -> bytes | None:
        """Return the metadata that the backend returned for the same source before."""
        key = self._metadata_key(product)
        return None if key is None else self._cache.metadata(key)

    def _metadata_key(self, product: Product) -> str | None:
        """Return the cache key of a backend's metadata; None: the source may change any time."""
        project, kind = product.project, "wheel"
        if project is not None:
            identity, kind = project.identity or state_of(project.folder), project.kind
        else:
            sha256 = product.file.hashes.get("sha256")
            identity = ("archive", sha256, "") if sha256 else None
        if identity is None:
            return None
        return built_metadata_key(identity, kind, self.policy.target, self.policy.settings)

    def _is_too_large(self, product: Product) -> bool:
        """Return whether an archive is too large to fetch only for its metadata."""
        if product.is_named or product.project is not None:
            return False
        return (product.file.size or 0) > _MAX_FETCHED_SIZE and not self._is_allowed(product)

    def _metadata(self, product: Product) -> bytes:
        """Return the metadata of a product, from its backend if necessary; needs the lock."""
        if product.metadata is not None:
            return product.metadata
        project = product.opened()
        data = project.metadata or self._cached_metadata(product)
        if data is None:
            key = self._metadata_key(product)
            data = self._request_metadata(product, project)
            if key is not None:
                self._cache.store_metadata(key, data, {"source": redact(project.url)})
        project.check(data)
        product.metadata = data
        return data

    def _check_consent(self, product: Product, project: OpenProject) -> None:
        """Raise if the backend of a project may not run."""
        if not product.is_named:
            if not self._is_allowed(product):
                raise self._not_allowed(product)
            return
        name = (
            project.expected_release[0]
            if project.expected_release
            else read_pyproject_name(project.folder)
        )
        if not self.policy.allows_named(name):
            raise SourceBuildNotAllowed(
                "the metadata of this project is dynamic, and its build backend may not run",
                where=project.name,
                hint=f"--allow-source {name or 'always'} runs the backend, which is code of the "
                "project",
            )

    def _not_allowed(self, product: Product) -> SourceBuildNotAllowed:
        filename = parse_wheel_filename(product.file.filename)
        return SourceBuildNotAllowed(
            f"{filename.name} {filename.version} must be built from source, which is not allowed",
            where=product.file.display_name,
            note=self.policy.why_impossible or None,
            hint=f"add --allow-source {filename.name}, which runs its code",
        )

    def _request_metadata(self, product: Product, project: OpenProject) -> bytes:
        """Return the metadata from the backend of a project, or from the wheel it builds."""
        backend = self._backend(product, project)
        data = backend.metadata(project.kind, self._new_folder("metadata"))
        if data is None:
            self._built(product)
            data = product.metadata
        if data is None:  # pragma: no cover - building sets it
            raise ValueError(product.file)
        return data

    def _backend(self, product: Product, project: OpenProject) -> Backend:
        """Return the backend of a project, in an environment with its build requirements."""
        if product.backend is not None:
            return product.backend
        self._check_consent(product, project)
        if project.name in self._being_prepared:
            raise BuildFailed(
                f"{project.name} needs itself to be built",
                note=" needs ".join((*self._being_prepared, project.name)),
            )
        self._being_prepared.append(project.name)
        try:
            self._tell(f"preparing to build {project.name}")
            environment = self._environment_factory.make(self._new_folder("environment"))
            product.environment = environment
            backend = Backend(
                project.folder,
                project.name,
                environment.python,
                environment.environ,
                settings=self.policy.settings,
                log=self._new_folder("log") / "build.log",
                children=self._children,
                echo=self._echo,
            )
            environment.add(backend.requires, project.name)
            environment.add(backend.requires_for_build(project.kind), project.name)
        finally:
            self._being_prepared.pop()
        product.backend = backend
        return backend

    def _built(self, product: Product) -> BuiltWheel:
        """Return the wheel of a product, which is built first unless it is cached."""
        with self._build_lock:
            if product.wheel is not None:
                return product.wheel
            project = product.opened()
            backend = self._backend(product, project)
            key = self._wheel_key(product, project)
            wheel = None if key is None else self._cache.find(key)
            if wheel is None:
                self._tell(f"building {project.name}")
                started_at = time.monotonic()
                path = backend.build(project.kind, self._new_folder("wheel"))
                wheel = BuiltWheel(path, path.name)
                product.metadata = checked_metadata(wheel, project)
                self._tell(
                    f"built {wheel.filename} in {duration_in_words(time.monotonic() - started_at)}"
                )
                if key is not None:
                    wheel = self._cache.keep(key, wheel, {"source": redact(project.url)})
            else:
                product.metadata = checked_metadata(wheel, project)
            product.wheel = wheel
            return wheel

    def _wheel_key(self, product: Product, project: OpenProject) -> str | None:
        """Return the cache key of a built wheel; None: it must not be cached."""
        contents = None if product.environment is None else product.environment.contents
        if project.identity is None or contents is None:
            return None
        policy = self.policy
        return built_wheel_key(project.identity, policy.target, policy.settings, contents)

    # --- folders -------------------------------------------------------------------------------

    def _new_folder(self, what: str) -> Path:
        with self._folder_lock:
            if self._folder is None:
                self._folder = self._stack.enter_context(self._scratch()).resolve()
        return Path(tempfile.mkdtemp(prefix=f"{what}-", dir=self._folder))


def _source_of(file: File) -> File:
    """Return the source distribution that a wheel is built from."""
    if file.origin is None:  # pragma: no cover - only wheels with an origin are built
        raise ValueError(file)
    return structs.replace(file, filename=file.origin.name, origin=None)
