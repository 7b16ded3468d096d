"""Compares all files in an S3 store (emulated by moto), and one file by each way to reach a store."""

import logging
import sys
from pathlib import Path
from urllib.parse import quote

import boto3
from botocore.config import Config

from checks.runner import ROOT
from checks.servers import Process, Refused, certificate, free_port

from .compare import Comparison
from .files import File
from .recorder import Recorder

BUCKET, REGION = "voltile-test", "eu-central-1"
KEY, SECRET = "AKIAVOLTILETEST00001", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLE"
logging.getLogger("boto3").setLevel(logging.ERROR)


class Moto:
    """Two servers of moto, `plain` without TLS and `secure` with it. They share no objects."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.port, self.secure_port = free_port(), free_port()
        self.authority, server_certificate, key = certificate(folder, "IP:127.0.0.1")
        program = Path(sys.prefix) / "bin" / "moto_server"
        self.plain = Process([program, "-p", self.port], folder / "moto.log")
        self.secure = Process([program, "-p", self.secure_port, "-c", server_certificate, "-k", key], folder / "moto-tls.log")

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

    def client(self, secure: bool = False):
        endpoint = f"https://127.0.0.1:{self.secure_port}" if secure else f"http://127.0.0.1:{self.port}"
        config = Config(s3={"addressing_style": "path"}, signature_version="s3v4")
        verify = str(self.authority) if secure else None
        account = {"region_name": REGION, "aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
        return boto3.client("s3", endpoint_url=endpoint, verify=verify, config=config, **account)

    def environment(self, port: int | None = None) -> dict[str, str]:
        """The variables by which voltile reaches the server without TLS, or a proxy of it at `port`."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def compare_all(self, comparison: Comparison, files: list[File]) -> None:
        client = self.client()
        for file in files:
            client.upload_file(str(file.path), BUCKET, file.key)
        comparison.in_batches(files, lambda file: f"s3://{BUCKET}/{quote(file.key)}", self.environment())

    def ways(self, comparison: Comparison) -> None:
        """Reaches a store in each possible way, and compares one file there with the file on disk."""
        path, report = ROOT / "fixtures" / "layouts.h5", comparison.report
        for secure in (False, True):
            for key, access in (("ways/layouts.h5", "private"), ("ways/layouts_public.h5", "public-read")):
                self.client(secure).upload_file(str(path), BUCKET, key, ExtraArgs={"ACL": access})
        s3 = f"s3://{BUCKET}/ways/layouts.h5"
        home = self.folder / "home"
        (home / ".aws").mkdir(parents=True)
        with comparison.serve({"a": path}, {}) as local, Recorder(self.port) as recorder:
            recorded = self.environment(recorder.port)

            def way(name: str, address: str, environment: dict[str, str], is_right=None) -> None:
                """Compares one way. All recorded requests must satisfy `is_right(path, headers)`."""
                recorder.requests.clear()
                try:
                    with comparison.serve({"a": address}, environment) as remote:
                        comparison.dataset(local, remote, "a", name)
                except Refused as refused:
                    report.add(name, False, str(refused))
                requests = list(recorder.requests)
                if is_right is not None:
                    are_right = bool(requests) and all(is_right(path, headers) for path, headers in requests)
                    report.add(f"{name}: the requests", are_right, str(requests[:2]))

            target = {"Bucket": BUCKET, "Key": "ways/layouts.h5"}
            way("presigned http", self.client().generate_presigned_url("get_object", target), {})
            url = self.client(secure=True).generate_presigned_url("get_object", target)
            way("presigned https", url, {"SSL_CERT_FILE": str(self.authority)})
            way("path style, signed", s3, recorded, is_signed_by(KEY))
            anonymous = {**recorded, "AWS_SKIP_SIGNATURE": "true"}
            public = f"s3://{BUCKET}/ways/layouts_public.h5"
            way("anonymous", public, anonymous, lambda _, headers: "authorization" not in headers)
            refusal = comparison.faults({"a": s3}, anonymous).get("a", "")
            report.add("anonymous: a private object is refused", "the store refuses access" in refusal, refusal)
            requester_pays = {**recorded, "AWS_REQUEST_PAYER": "true"}
            way("requester pays", s3, requester_pays, lambda _, headers: headers.get("x-amz-request-payer") == "requester")
            (home / ".aws" / "credentials").write_text(
                f"[default]\naws_access_key_id = AKIADEFAULT\naws_secret_access_key = x\n"
                f"[lab]\naws_access_key_id = AKIALAB\naws_secret_access_key = {SECRET}\n"
            )
            endpoint = f"region = {REGION}\nendpoint_url = http://127.0.0.1:{recorder.port}\n"
            (home / ".aws" / "config").write_text(f"[default]\n{endpoint}[profile lab]\n{endpoint}")
            from_files = {"HOME": str(home), "AWS_ALLOW_HTTP": "true"}
            way("profile lab", s3, {**from_files, "AWS_PROFILE": "lab"}, is_signed_by("AKIALAB"))
            way("profile default", s3, from_files, is_signed_by("AKIADEFAULT"))


def is_signed_by(key: str):
    """A test of a recorded request: it is path style, and signed with this access key."""
    return lambda path, headers: path.startswith(f"/{BUCKET}/ways/layouts") and key in headers.get("authorization", "")
