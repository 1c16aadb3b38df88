"""What a proxy starts as a bill of materials, for tools that watch over packages.

CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json): the proxy depends on its servers, each with the
version that it gives itself, and a server on the package or the image that its command line names,
with a purl. Of a frozen server it has all packages, with their hashes and who has built them. Of
any other, what these depend on is resolved anew at each start, and is not known here. The same
bytes for the same file: the serial number is made of its text, and no time is in it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from mcpagg import __version__
from mcpagg.options import PROGRAM
from mcpagg.passes.environment.programs import Package, find_package
from mcpagg.snapshot import ChildSnapshot
from mcpagg_runtime.frozen.table import (
    DockerImage,
    NpmPackage,
    NpmTree,
    PypiPackage,
    PypiTree,
    read_frozen,
)

if TYPE_CHECKING:
    from mcpagg.compilation import Compilation


def bill_of_materials(result: Compilation) -> str:
    """Return the bill of a compilation, as JSON text."""
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, result.text))
    bom.metadata.timestamp = None  # type: ignore[assignment] # the schema does not ask for one
    bom.metadata.tools.components.add(
        Component(name=PROGRAM, type=ComponentType.APPLICATION, version=__version__)
    )
    proxy = Component(name=result.name, type=ComponentType.APPLICATION, bom_ref="proxy")
    bom.metadata.component = proxy
    rows, children = result.data.rows, result.data.snapshot.children
    frozen = result.data.frozen
    servers = [
        _server(bom, child, rows[child.name], frozen.get(child.name, ())) for child in children
    ]
    bom.register_dependency(proxy, servers)
    outputter = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    return outputter.output_as_string(indent=2) + "\n"


def _server(
    bom: Bom, child: ChildSnapshot, row: Mapping[str, Any], frozen: Sequence[str]
) -> Component:
    """Add a server to a bill, and what it starts: what is frozen, or what its command names."""
    about = {"mcpagg:protocol": ", ".join(child.protocols), "mcpagg:tools": str(len(child.tools))}
    if "url" in row:
        about["mcpagg:transport"] = str(row["transport"])
    server = Component(
        name=child.name,
        type=ComponentType.APPLICATION,
        version=_text(child.info.get("version")),
        description=_text(child.info.get("title")) or _text(child.info.get("name")),
        bom_ref=f"server:{child.name}",
        properties=[Property(name=name, value=value) for name, value in about.items()],
    )
    bom.components.add(server)
    package = find_package(row["command"], row["args"]) if "command" in row else None
    starts = [*_frozen(frozen)] if frozen else [_package(package)] if package else []
    known = {component.bom_ref.value: component for component in bom.components}
    starts = [known.get(component.bom_ref.value, component) for component in starts]
    for component in starts:
        bom.components.add(component)
    bom.register_dependency(server, starts)
    return server


def _package(package: Package) -> Component:
    """Return a package that a command line names."""
    kind = package.launcher.kind
    purl = _purl(package)
    return Component(
        name=package.name,
        type=ComponentType.CONTAINER if kind == "docker" else ComponentType.LIBRARY,
        version=package.version or None,
        purl=purl,
        bom_ref=str(purl) if purl else f"package:{package.written}",
    )


def _frozen(rows: Sequence[str]) -> Iterator[Component]:
    """Yield the packages of a frozen server, or its image; each version of a package once."""
    frozen = read_frozen(rows)
    if isinstance(frozen, DockerImage):
        purl = _registry_purl("docker", frozen.image, frozen.digest)
        yield Component(
            name=frozen.image,
            type=ComponentType.CONTAINER,
            version=frozen.digest,
            purl=purl,
            bom_ref=str(purl),
        )
    packages: dict[str, Component] = {}
    if isinstance(frozen, NpmTree):
        for one in frozen.packages:
            digest = base64.b64decode(one.integrity.partition("-")[2]).hex()
            component = _component("npm", one, HashAlgorithm.SHA_512, [digest])
            packages.setdefault(component.bom_ref.value or "", component)
    elif isinstance(frozen, PypiTree):
        for wheels in frozen.packages:
            digests = [base64.urlsafe_b64decode(f"{text}=").hex() for text in wheels.hashes]
            component = _component("pypi", wheels, HashAlgorithm.SHA_256, digests)
            packages.setdefault(component.bom_ref.value or "", component)
    yield from packages.values()


def _component(
    kind: str, package: NpmPackage | PypiPackage, algorithm: HashAlgorithm, digests: Iterable[str]
) -> Component:
    purl = _registry_purl(kind, package.name, package.version)
    built = [Property(name="mcpagg:built-by", value=package.builder)] if package.builder else []
    return Component(
        name=package.name,
        type=ComponentType.LIBRARY,
        version=package.version,
        properties=built,
        purl=purl,
        bom_ref=str(purl),
        hashes=[HashType(alg=algorithm, content=digest) for digest in digests],
    )


def _purl(package: Package) -> PackageURL | None:
    """Return the purl of a package, None of one that is in no registry.

    https://github.com/package-url/purl-spec, the types npm, pypi and docker
    """
    if package.is_repository:
        return None
    name = package.name.removeprefix("npm:").partition("[")[0]
    return _registry_purl(package.launcher.kind, name, package.version)


def _registry_purl(kind: str, name: str, version: str) -> PackageURL:
    namespace, _, name = name.rpartition("/")
    registry, _, rest = namespace.partition("/")
    qualifiers = {}
    if kind == "docker" and ("." in registry or ":" in registry or registry == "localhost"):
        namespace, qualifiers = rest, {"repository_url": registry}
    return PackageURL(kind, namespace or None, name, version or None, qualifiers)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
