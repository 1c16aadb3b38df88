"""The way to a server behind a URL: TLS, and proxies."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from remotes import Remote, Talk


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a certificate for 127.0.0.1 and h.example, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    hosts = [x509.DNSName("h.example"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = tmp_path_factory.mktemp("certificate") / "both.pem"
    file.write_bytes(plain + made.public_bytes(pem))
    return file


@pytest.fixture
def secure(certificate: Path) -> Iterator[Remote]:
    """Return a server of https."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Remote(tls=context) as server:
        yield server


def failure(url: str) -> str:
    """Return why a server cannot be spoken to."""
    with Talk(url) as talk:
        talk.ask("initialize")
        return talk.end()


def test_a_certificate_that_nobody_vouches_for_is_refused_with_the_remedy(secure: Remote) -> None:
    why = failure(secure.url)
    assert why.startswith(f"could not be reached at {secure.url}: its certificate is not trusted")
    assert "SSL_CERT_FILE" in why
    assert secure.requests == []


def test_an_authority_of_ones_own_is_trusted(
    secure: Remote, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Talk(secure.url) as talk:
        talk.greet().call("tools/list")
    name = secure.url.replace("127.0.0.1", "localhost")
    assert "its certificate is not trusted" in failure(name)


def test_what_speaks_no_tls_is_told() -> None:
    with Remote() as server:
        assert "is its URL one of http://?" in failure(server.url.replace("http", "https"))


class Tunnel:
    """A proxy that leads all connections to one port, 0: to none; `heads` are what it was asked."""

    def __init__(self, port: int, answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> None:
        self.heads: list[str] = []
        self._port = port
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            head = b""
            while b"\r\n\r\n" not in head:
                head += near.recv(1)
            self.heads.append(head.decode())
            near.sendall(self._answer)
            if not self._port:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._port))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with source, suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def test_https_goes_through_a_tunnel(
    secure: Remote, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tunnel = Tunnel(secure.port)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:pass@{tunnel.place}")
    with Talk("https://h.example/mcp", {"X-Key": "k"}) as talk:
        talk.greet().call("tools/list")
    tunnel.close()
    for head in tunnel.heads:
        assert head.startswith("CONNECT h.example:443 HTTP/1")
        assert "Proxy-Authorization: Basic dXNlcjpwYXNz\r\n" in head
        assert "X-Key" not in head
    assert "proxy-authorization" not in secure.requests[0].headers
    assert secure.requests[0].headers["host"] == "h.example"


def test_a_proxy_that_refuses_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tunnel = Tunnel(0, b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{tunnel.place}")
    why = failure("https://h.example/mcp")
    tunnel.close()
    assert f"through the proxy http://{tunnel.place}/ (HTTPS_PROXY)" in why
    assert "407" in why
    assert "secret" not in why


def test_http_goes_to_the_proxy_with_the_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    with Remote() as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:pass@127.0.0.1:{proxy.port}")
        with Talk("http://h.example:8080/mcp?k=1") as talk:
            talk.greet().call("tools/list")
        for request in proxy.requests:
            assert request.path == "http://h.example:8080/mcp?k=1"
            assert request.headers["host"] == "h.example:8080"
            assert request.headers["proxy-authorization"] == "Basic dXNlcjpwYXNz"


def test_a_dead_proxy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Remote() as gone:
        pass
    monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{gone.port}")
    why = failure("http://h.example/mcp")
    assert f"through the proxy http://127.0.0.1:{gone.port}/ (HTTP_PROXY): the connection" in why
