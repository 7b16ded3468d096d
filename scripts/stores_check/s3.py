"""S3, by moto: all files, and the ways to reach a store."""

import datetime
import ipaddress
import logging
import sys
from pathlib import Path

import boto3
from botocore.config import Config
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from . import compare
from .files import File
from .report import Report
from .servers import Process, Recorder, Refused, Voltile, faults, free_port

BUCKET, REGION = "voltile-test", "eu-central-1"
KEY, SECRET = "AKIAVOLTILETEST00001", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLE"
logging.getLogger("boto3").setLevel(logging.ERROR)


class Moto:
    """moto's server, once with TLS and once without, each with its own objects."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.port, self.secure_port = free_port(), free_port()
        self.authority, certificate, key = certificates(folder)
        program = str(Path(sys.prefix) / "bin" / "moto_server")
        self.plain = Process([program, "-p", str(self.port)], folder / "moto.log")
        secure = [program, "-p", str(self.secure_port), "-c", str(certificate), "-k", str(key)]
        self.secure = Process(secure, folder / "moto-tls.log")

    def __enter__(self) -> "Moto":
        try:
            self.plain.wait_for_port(self.port)
            self.secure.wait_for_port(self.secure_port)
        except BaseException:
            self.__exit__()
            raise
        for client in (self.client(), self.client(secure=True)):
            client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        return self

    def __exit__(self, *_: object) -> None:
        self.plain.stop()
        self.secure.stop()

    def endpoint(self, secure: bool = False) -> str:
        return f"https://127.0.0.1:{self.secure_port}" if secure else f"http://127.0.0.1:{self.port}"

    def client(self, secure: bool = False):
        config = Config(s3={"addressing_style": "path"}, signature_version="s3v4")
        verify = str(self.authority) if secure else None
        return boto3.client(
            "s3", endpoint_url=self.endpoint(secure), verify=verify, region_name=REGION, aws_access_key_id=KEY,
            aws_secret_access_key=SECRET, config=config,
        )  # fmt: skip

    def environment(self, port: int | None = None) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def compare_all(self, voltile: Path, files: list[File], report: Report) -> None:
        client = self.client()
        for file in files:
            client.upload_file(str(file.path), BUCKET, file.key)
        compare.in_batches(voltile, files, lambda file: f"s3://{BUCKET}/{quoted(file.key)}", self.folder, self.environment(), report)

    def ways(self, voltile: Path, report: Report) -> None:
        """The ways to reach a store, each with one file whose tile is compared with that of the file on disk."""
        path = Path(__file__).resolve().parents[2] / "fixtures" / "layouts.h5"
        for secure in (False, True):
            for key, rights in (("ways/layouts.h5", "private"), ("ways/layouts_public.h5", "public-read")):
                self.client(secure).upload_file(str(path), BUCKET, key, ExtraArgs={"ACL": rights})
        s3 = f"s3://{BUCKET}/ways/layouts.h5"
        home = self.folder / "home"
        (home / ".aws").mkdir(parents=True)
        with Voltile(voltile, {"a": str(path)}, self.folder, {}) as local, Recorder(self.port) as recorder:
            recorded = self.environment(recorder.port)

            def way(name: str, address: str, environment: dict[str, str], is_right=None) -> None:
                recorder.asked.clear()
                try:
                    with Voltile(voltile, {"a": address}, self.folder, environment) as remote:
                        compare.dataset(local, remote, "a", name, report)
                except Refused as refused:
                    report.add(name, False, str(refused))
                asked = list(recorder.asked)
                if is_right is not None:
                    are_right = bool(asked) and all(is_right(*one) for one in asked)
                    report.add(f"{name}: what was asked for", are_right, str(asked[:2]))

            signed = {"Bucket": BUCKET, "Key": "ways/layouts.h5"}
            way("presigned http", self.client().generate_presigned_url("get_object", signed), {})
            url = self.client(secure=True).generate_presigned_url("get_object", signed)
            way("presigned https", url, {"SSL_CERT_FILE": str(self.authority)})
            way("path style, signed", s3, recorded, is_signed_by(KEY))
            anonymous = {**self.environment(recorder.port), "AWS_SKIP_SIGNATURE": "true"}
            public = s3.replace("layouts", "layouts_public")
            way("anonymous", public, anonymous, lambda _, headers: "authorization" not in headers)
            refusal = faults(voltile, {"a": s3}, self.folder, anonymous).get("a", "")
            report.add("anonymous: a private object is refused", "the store refuses access" in refusal, refusal)
            way("requester pays", s3, {**recorded, "AWS_REQUEST_PAYER": "true"}, lambda _, headers: headers.get("x-amz-request-payer") == "requester")
            (home / ".aws" / "credentials").write_text(
                f"[default]\naws_access_key_id = AKIADEFAULT\naws_secret_access_key = x\n"
                f"[lab]\naws_access_key_id = AKIALAB\naws_secret_access_key = {SECRET}\n"
            )
            endpoint = f"region = {REGION}\nendpoint_url = http://127.0.0.1:{recorder.port}\n"
            (home / ".aws" / "config").write_text(f"[default]\n{endpoint}[profile lab]\n{endpoint}")
            files = {"HOME": str(home), "AWS_ALLOW_HTTP": "true"}
            way("profile lab", s3, {**files, "AWS_PROFILE": "lab"}, is_signed_by("AKIALAB"))
            way("profile default", s3, files, is_signed_by("AKIADEFAULT"))


def is_signed_by(key: str):
    return lambda path, headers: path.startswith(f"/{BUCKET}/ways/layouts") and key in headers.get("authorization", "")


def quoted(key: str) -> str:
    from urllib.parse import quote

    return quote(key)


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """A certificate authority, and a certificate for 127.0.0.1 with its key."""
    day = datetime.timedelta(days=1)
    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("voltile test authority", "127.0.0.1")]

    def certificate(number: int, *extensions: x509.ExtensionType) -> Path:
        builder = x509.CertificateBuilder().subject_name(names[number]).issuer_name(names[0])
        builder = builder.public_key(keys[number].public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - day).not_valid_after(now + 7 * day)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        path = folder / f"certificate{number}.pem"
        path.write_bytes(builder.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path

    authority = certificate(0, x509.BasicConstraints(ca=True, path_length=None))
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    own = certificate(1, x509.BasicConstraints(ca=False, path_length=None), address)
    key = folder / "key.pem"
    no_password = serialization.NoEncryption()
    key.write_bytes(keys[1].private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_password))
    return authority, own, key
