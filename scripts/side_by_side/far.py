"""A web server that behaves as if it were far away: each answer is delayed by the time of a round trip.

`python -m side_by_side.far FOLDER PORT SECONDS` serves a folder's files, also ranges of them, for many connections at once.
"""

import asyncio
import re
import sys
from pathlib import Path

RANGE = re.compile(rb"^range: *bytes=(\d+)-(\d*)\r?$", re.IGNORECASE | re.MULTILINE)


class Far:
    def __init__(self, folder: Path, delay: float):
        self.folder, self.delay = folder, delay

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):  # a request without a body
                method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
                writer.write(await self.answer(method, path, head))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, method: str, path: str, head: bytes) -> bytes:
        file = self.folder / path.lstrip("/")
        await asyncio.sleep(self.delay)
        if not file.is_file():
            return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        about, wanted = file.stat(), RANGE.search(head)
        first, last = 0, about.st_size - 1
        if wanted:
            first = int(wanted[1])
            last = min(int(wanted[2] or last), last)
        with file.open("rb") as opened:
            opened.seek(first)
            body = b"" if method == "HEAD" else opened.read(last - first + 1)
        status = f"206 Partial Content\r\ncontent-range: bytes {first}-{last}/{about.st_size}" if wanted else "200 OK"
        fields = f"accept-ranges: bytes\r\ncontent-length: {last - first + 1}\r\netag: \"{about.st_mtime_ns}\""
        return f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + body


async def main() -> None:
    far = Far(Path(sys.argv[1]), float(sys.argv[3]))
    async with await asyncio.start_server(far.serve, "127.0.0.1", int(sys.argv[2]), backlog=512) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
