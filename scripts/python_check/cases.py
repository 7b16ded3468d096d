"""The tests of the package, run by each Python with the wheel and NumPy: `python cases.py FOLDER [CASE...]`.

FOLDER holds the volumes of volumes.py. Prints `N passed, N failed, N skipped` last.
"""

import gc
import http.server
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import urllib.error
import urllib.request
import warnings
from pathlib import Path

import numpy as np

import voltile
from voltile import _program, _volume

FOLDER = Path(sys.argv[1])
SERIES = {
    "channels": {
        "series": {"path": "/series", "axes": "tzyx"},
        "colours": {"path": "/colours", "axes": "zyxc", "kind": "rgb"},
    }
}
# Far longer than anything takes.
PATIENCE = 120.0
NOBODY = 65534


def wait_until(condition):
    """Waits until a condition holds, and returns whether it does."""
    end = time.monotonic() + PATIENCE
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return holds


def has_ended(pid):
    """Whether a process has ended. It may stay as a zombie (Z) if its parent does not wait for it, as in some containers."""
    try:
        # `412 (voltile) Z 1 …`
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


class Case(unittest.TestCase):
    expected = {}

    @classmethod
    def setUpClass(cls):
        cls.expected = dict(np.load(FOLDER / "expected.npz"))

    def equal(self, found, wanted, what=""):
        """Asserts that two arrays, or two scalars of NumPy, are equal in values, shape and type."""
        self.assertEqual((type(found), found.dtype, found.shape), (type(wanted), wanted.dtype, wanted.shape), what)
        self.assertTrue(np.array_equal(found, wanted), what)


class Reading(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        settings = {"brain": {"voxel_size": [6, 7.5, 30]}, "series": SERIES}
        cls.server = voltile.serve([FOLDER / "brain.h5", str(FOLDER / "types.h5"), FOLDER / "series.h5"], datasets=settings)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def setUp(self):
        self.raw, self.voxels = self.server["brain/raw"], self.expected["raw"]

    def test_a_whole_volume_is_read_in_boxes_side_by_side(self):
        for name in ("raw", "ids"):
            volume, voxels = self.server[f"brain/{name}"], self.expected[name]
            self.assertEqual((volume.shape, volume.ndim, volume.size, len(volume)), (voxels.shape, 3, voxels.size, 70))
            self.assertGreater(np.prod(voxels.shape) * voxels.itemsize, _volume.BOX_BYTES)
            self.equal(volume[...], voxels)
            self.equal(np.asarray(volume), voxels)

    def test_every_type_in_either_byte_order_is_native(self):
        names = [name for name in self.expected if name.endswith(("_little", "_big")) or name == "booleans"]
        self.assertEqual(len(names), 23)
        for name in names:
            volume = self.server[f"types/{name}"]
            self.equal(volume[:], self.expected[name], name)
            self.assertTrue(volume.dtype.isnative and volume[:].dtype.isnative)
            self.equal(volume[4, 39, 69], self.expected[name][4, 39, 69], name)

    def test_indices_are_those_of_numpy(self):
        for key in [
            (), ..., 0, -1, 69, -70, np.int64(3), (40, slice(100, 165)), (slice(None), 5), (..., 5), (..., -1, slice(None)),
            (3, 4, 5), (-1, -1, -1), (slice(63, 65), slice(63, 129), slice(63, 65)), slice(None, None, -1), slice(5, 5),
            slice(60, 900), slice(-3, None), (slice(None, None, 7), slice(290, 3, -11), slice(-1, None, -200)), None,
            (None, 5, None, ..., None), (1, ..., None), (slice(2, 1), 3), (1, 2, 3, ...), (1, 2, 3, None), slice(65, 2, -64),
        ]:  # fmt: skip
            self.equal(self.raw[key], self.voxels[key], str(key))

    def test_any_box_is_right_however_it_is_divided(self):
        chance = random.Random(7)

        def item(extent):
            end = extent + 5
            if chance.random() < 0.3:
                return chance.randrange(-extent, extent)
            places = [chance.choice([None, chance.randint(-end, end)]) for _ in range(2)]
            return slice(*places, chance.choice([None, 1, 1, 2, 3, 17, 64, 1000, -1, -2, -65]))

        whole = _volume.BOX_BYTES
        self.addCleanup(setattr, _volume, "BOX_BYTES", whole)
        for count in range(30):
            _volume.BOX_BYTES = chance.choice([200_000, 1_000_000, whole])
            key = tuple(item(extent) for extent in self.raw.shape[: chance.randint(1, 3)])
            self.equal(self.raw[key], self.voxels[key], f"{count}: {key}, boxes of {_volume.BOX_BYTES}")

    def test_what_is_no_basic_index_is_an_error(self):
        for key in [70, -71, (0, 300), (0, 0, 0, 0), [1, 2], True, 1.0, "raw", (..., ...), np.array([1]), (slice(None), [0])]:
            with self.assertRaises(IndexError, msg=str(key)):
                self.raw[key]

    def test_levels_are_means_of_images_and_voxels_of_labels(self):
        self.assertEqual(self.raw.levels, [0, 1])
        half = self.raw.level(1)
        self.equal(half[...], self.expected["raw_2"])
        self.equal(half[-1, -1, -1], self.expected["raw_2"][-1, -1, -1])
        self.equal(self.server["brain/ids"].level(1)[::-1], self.expected["ids_2"][::-1])
        self.assertEqual((self.raw.voxel_size, half.voxel_size, half.voxel_unit), ((30, 7.5, 6), (30, 15, 12), "nm"))
        self.assertIsNone(self.server["types/booleans"].voxel_size)
        with self.assertRaisesRegex(IndexError, r"there is no level 2 of raw; the levels are \[0, 1\]"):
            self.raw.level(2)

    def test_time_points_and_colours(self):
        series, voxels = self.server["series/series"], self.expected["series"]
        self.assertEqual((series.times, series.shape, self.raw.times), (3, (6, 50, 60), None))
        self.equal(series[...], voxels[0])
        for point in (0, 1, 2, -1):
            self.equal(series.time(point)[2:, ::-1], voxels[point, 2:, ::-1])
        self.equal(self.raw.time(0)[3, 4], self.voxels[3, 4])
        for volume, point in ((series, 3), (series, -4), (self.raw, 1)):
            with self.assertRaisesRegex(IndexError, "there is no time point"):
                volume.time(point)
        colours, voxels = self.server["series/colours"], self.expected["colours"]
        self.assertEqual((colours.kind, colours.shape), ("rgb", (6, 50, 60, 3)))
        for key in [..., (1, 2, 3), (1, 2, 3, -1), (slice(None), 5, ..., slice(None, None, -1)), (..., 0), (2, None, ..., None)]:
            self.equal(colours[key], voxels[key], str(key))

    def test_several_files_are_named_by_their_datasets(self):
        self.assertEqual(sorted(self.server.datasets), ["brain", "series", "types"])
        self.assertEqual(len(self.server), 2 + 23 + 2)
        self.assertIn("series/colours", self.server)
        self.assertIn("brain/ids, brain/raw", repr(self.server))
        with self.assertRaisesRegex(KeyError, "there is no channel raw; there are: brain/ids, brain/raw"):
            self.server["raw"]
        with self.assertRaisesRegex(ValueError, "brain"):
            self.server.neuroglancer()

    def test_a_volume_can_be_sent_to_another_process(self):
        self.equal(pickle.loads(pickle.dumps(self.raw.level(1)))[3], self.expected["raw_2"][3])

    def test_without_jupyter_there_are_links(self):
        link = self.server["brain/raw"]._repr_html_()
        self.assertRegex(link, '<a href="http://127.0.0.1:[0-9]+/k/[0-9a-f]{48}/#brain[?]show=raw" target')
        viewer = self.server["series/series"].time(1).neuroglancer()
        self.assertIn(f"{self.server.address}neuroglancer/series/series@1", urllib.request.unquote(viewer.address))
        self.assertIn("<a href=", viewer._repr_html_())
        self.assertNotIn("/k/", repr(self.server) + repr(self.server["brain/raw"]))

    def test_neuroglancer_adds_all_images_in_the_colours_of_the_page(self):
        address = urllib.request.unquote(self.server.neuroglancer("types").address)
        layers = json.loads(address.split("#!")[1])["layers"]
        images = [layer for layer in layers if "invlerp" in layer.get("shader", "")]
        self.assertEqual([image.get("visible", True) for image in images], [place < 6 for place in range(len(images))])
        self.assertEqual([image.get("blend") for image in images], [None] + ["additive"] * (len(images) - 1))
        self.assertGreater(len({image["shader"] for image in images}), 3)

    def test_packages_that_are_missing_are_named(self):
        for name, method in (("zarr", self.raw.zarr), ("dask", self.raw.dask)):
            hidden = {key: sys.modules.pop(key) for key in list(sys.modules) if key.partition(".")[0] == name}
            sys.modules[name] = None  # type: ignore[assignment]
            try:
                with self.assertRaisesRegex(ImportError, rf"{name} is not installed: pip install 'voltile\[{name}\]'"):
                    method()
            finally:
                sys.modules.pop(name)
                sys.modules.update(hidden)


class Lazily(Case):
    """With zarr and dask."""

    def test_zarr_and_dask_read_what_h5py_does(self):
        with voltile.serve([FOLDER / "brain.h5", FOLDER / "series.h5"], datasets={"series": SERIES}) as server:
            for name, number, wanted in (("raw", 0, "raw"), ("raw", 1, "raw_2"), ("ids", 0, "ids")):
                volume = server[f"brain/{name}"].level(number)
                array, blocks = volume.zarr(), volume.dask()
                self.assertEqual((array.shape, blocks.shape, blocks.chunksize), (volume.shape, volume.shape, volume.chunks))
                self.equal(np.asarray(array[...]), self.expected[wanted])
                self.equal(np.asarray(array[-1, 60:70, -3:]), self.expected[wanted][-1, 60:70, -3:])
                self.equal(blocks.compute(), self.expected[wanted])
                self.equal(blocks[3, ::5, -1].compute(), self.expected[wanted][3, ::5, -1])
                self.assertEqual(int(blocks.max().compute()), self.expected[wanted].max())
            self.equal(np.asarray(server["series/series"].zarr()[...]), self.expected["series"])
            self.equal(server["series/series"].time(2).dask().compute(), self.expected["series"][2])
            self.equal(server["series/colours"].dask().compute(), self.expected["colours"])
            self.assertEqual(server["series/colours"].zarr().shape, (3, 6, 50, 60))

    def test_an_array_keeps_its_server(self):
        for method in ("zarr", "dask"):
            server = voltile.serve(FOLDER / "brain.h5")
            process, array = server._program._process, getattr(server["raw"], method)()
            del server
            gc.collect()
            self.equal(np.asarray(array[5]), self.expected["raw"][5])
            del array
            gc.collect()
            self.assertEqual(process.wait(PATIENCE), 0)


class Limits(Case):
    def read(self, **settings):
        with voltile.serve(FOLDER / "brain.h5", **settings) as server:
            self.equal(server["raw"][...], self.expected["raw"])
            self.equal(server["brain/ids"][30:, ::-1], self.expected["ids"][30:, ::-1])

    def test_boxes_are_divided_until_the_server_makes_them(self):
        self.read(render={"max_voxels_per_box": 100_000})
        self.read(render={"boxes": "1 MiB"})

    def test_a_server_that_is_busy_is_asked_again(self):
        whole = _volume.BOX_BYTES
        self.addCleanup(setattr, _volume, "BOX_BYTES", whole)
        _volume.BOX_BYTES = 1 << 20
        self.read(render={"queue": 1, "threads": 1})


class Starting(Case):
    def test_what_the_program_says_is_the_exception(self):
        command = [_program.path(), "serve", "--set", "render.threads=0", "nothing.h5"]
        said = subprocess.run(command, stderr=subprocess.PIPE, text=True, cwd=FOLDER).stderr
        there = os.getcwd()
        os.chdir(FOLDER)
        self.addCleanup(os.chdir, there)
        with self.assertRaises(voltile.Error) as raised:
            voltile.serve("nothing.h5", render={"threads": 0})
        self.assertIn(f"voltile: {raised.exception}\n", said)
        self.assertIn("2 things are wrong", str(raised.exception))
        with self.assertRaisesRegex(voltile.Error, "there is nothing to serve"):
            voltile.serve([])
        with self.assertRaisesRegex(ValueError, "access"):
            voltile.serve("nothing.h5", access=[])

    def test_what_the_server_answers_is_the_exception(self):
        with voltile.serve(FOLDER / "brain.h5") as server:
            volume = server["raw"]
            volume._channel = {**volume._channel, "times": 9}
            with self.assertRaisesRegex(voltile.Error, "time") as raised:
                volume.time(7)[0]
            self.assertEqual(raised.exception.status, 404)
            wrong = server.address.replace("/k/", "/k/0")
            with self.assertRaises(voltile.Error) as raised:
                voltile.connect(wrong)
            self.assertEqual(raised.exception.status, 401)
            self.assertIn("INFO", server.log)
        with self.assertRaisesRegex(voltile.Error, "does not answer"):
            volume[0]
        with self.assertRaisesRegex(ValueError, "is not an address"):
            voltile.connect("brain.h5")

    def test_settings_and_configurations(self):
        own = FOLDER / f"own-{os.getpid()}"
        own.mkdir()
        config = own / "voltile.toml"
        config.write_text('[datasets."a.b"]\nfile = "../brain.h5"\n[[access]]\nsecrets = "secret.txt"\n')
        (own / "secret.txt").write_text("the-secret-of-the-file\n")
        cache = {"chunks": "64 MiB", "tiles": 0}
        settings = {"a.b": {"offset": (1, 2, 3), "channels": {"raw": {"window": [0, 300.5]}}}}
        with voltile.serve(config=config, cache=cache, datasets=settings, log={"access": True}) as server:
            self.assertEqual(list(server), ["ids", "raw"])
            self.assertIn("cache.tiles 0 B, cache.chunks 64.0 MiB", server.log)
            described = json.loads(server._client.get("datasets/a.b.json"))
            self.assertEqual((described["offset"], described["channels"][1]["window"]), ([1, 2, 3], [0, 300.5]))
            self.equal(server["raw"][5], self.expected["raw"][5])
            place = server.address.split("/k/")[0]
            with self.assertRaises(urllib.error.HTTPError, msg="the secret of the configuration opens nothing"):
                urllib.request.urlopen(f"{place}/k/the-secret-of-the-file/datasets.json")

    def test_a_folder_and_what_is_put_into_it(self):
        folder = FOLDER / f"folder-{os.getpid()}"
        folder.mkdir()
        with voltile.serve(folder, files={"watch": "1s"}) as server:
            self.assertEqual(list(server), [])
            os.link(FOLDER / "sides.h5", folder / "new.h5")
            self.assertTrue(wait_until(lambda: "raw" in server), server.log)
            self.assertEqual(server["raw"].shape, (4, 240, 320))

    def test_connect_to_a_server_that_runs(self):
        command = [_program.path(), "serve", "--bind", "127.0.0.1:0", FOLDER / "brain.h5"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
            page = next(line for line in running.stdout if line.startswith("page ")).split()[1]
            for address in (page, page.rstrip("/"), f"{page}#brain?plane=xy"):
                self.equal(voltile.connect(address)["raw"][1], self.expected["raw"][1])
            running.terminate()
        with voltile.serve(FOLDER / "brain.h5") as server:
            other = voltile.connect(server.address)
            other.stop()
            self.equal(other["raw"][2], self.expected["raw"][2])
        with self.assertRaisesRegex(voltile.Error, "does not answer"):
            voltile.connect(server.address)

    def test_the_program_is_there_as_before(self):
        module = subprocess.check_output([sys.executable, "-m", "voltile", "--version"], text=True)
        program = subprocess.check_output([_program.path(), "--version"], text=True)
        self.assertTrue(module == program and module.startswith("voltile "), (module, program))


# A program in place of a kernel: it starts a server, and prints its process and address.
KERNEL = """
import os, signal, sys, time, voltile
if "interruptible" in sys.argv:
    signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
server = voltile.serve(sys.argv[1])
if "fork" in sys.argv and os.fork() == 0:
    time.sleep(600)
print(server._program._process.pid, server.address, flush=True)
time.sleep(600)
"""


class Bucket(http.server.BaseHTTPRequestHandler):
    """An S3 bucket with the files of FOLDER, which can only be read: whole, or a range of their bytes."""

    def do_GET(self):
        path = FOLDER / self.path.partition("?")[0].removeprefix("/bucket/")
        if not path.is_file():
            return self.send_error(404)
        body = path.read_bytes()
        if wanted := self.headers.get("Range"):
            # `bytes=5-9`, `bytes=5-`, or `bytes=-5`: the last five.
            first, last = wanted.removeprefix("bytes=").split("-")
            start, end, length = 0, len(body), len(body)
            if not first:
                start = max(0, length - int(last))
            else:
                start, end = int(first), int(last) + 1 if last else length
            body = body[start:end]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{length}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 02 Nov 2026 08:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Remote(Case):
    def test_files_in_object_storage(self):
        store = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
        threading.Thread(target=store.serve_forever, daemon=True).start()
        self.addCleanup(store.server_close)
        self.addCleanup(store.shutdown)
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
        keys["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{store.server_port}"
        with unittest.mock.patch.dict(os.environ, keys):
            with voltile.serve(["s3://bucket/brain.h5", FOLDER / "types.h5"]) as server:
                self.equal(server["brain/raw"][33:35], self.expected["raw"][33:35])
                self.equal(server["types/f4_big"][1], self.expected["f4_big"][1])
            with self.assertRaisesRegex(voltile.Error, "nothing.h5"):
                voltile.serve("s3://bucket/nothing.h5")


class Ending(Case):
    def kernel(self, *words):
        command = [sys.executable, "-c", KERNEL, str(FOLDER / "brain.h5"), *words]
        kernel = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        number, address = kernel.stdout.readline().split()
        self.addCleanup(self.kill_group, kernel)
        return kernel, int(number), address

    @staticmethod
    def kill_group(kernel):
        try:
            os.killpg(kernel.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        kernel.wait()
        kernel.stdout.close()

    def test_no_server_survives_a_killed_kernel(self):
        for words in ([], ["fork"]):
            kernel, server, address = self.kernel(*words)
            self.equal(voltile.connect(address)["raw"][0], self.expected["raw"][0])
            kernel.kill()
            self.assertTrue(wait_until(lambda: has_ended(server)), f"{words}: the server runs")

    def test_no_server_survives_a_kernel_that_ends(self):
        kernel, server, _ = self.kernel()
        kernel.terminate()
        self.assertTrue(wait_until(lambda: has_ended(server)))

    def test_an_interrupted_kernel_keeps_its_server(self):
        kernel, server, address = self.kernel("interruptible")
        self.assertNotEqual(os.getpgid(server), os.getpgid(kernel.pid))
        os.killpg(kernel.pid, signal.SIGINT)
        self.assertEqual(kernel.stdout.readline(), "interrupted\n")
        self.equal(voltile.connect(address)["raw"][1], self.expected["raw"][1])

    def test_a_server_ends_with_what_refers_to_it(self):
        server = voltile.serve(FOLDER / "brain.h5")
        process, volume = server._program._process, server["raw"]
        del server
        gc.collect()
        self.equal(volume[7], self.expected["raw"][7])
        del volume
        gc.collect()
        self.assertEqual(process.wait(PATIENCE), 0)
        server = voltile.serve(FOLDER / "brain.h5")
        server.stop()
        server.stop()
        self.assertEqual(server._program._process.returncode, 0)

    def test_many_threads_read_one_volume(self):
        with voltile.serve(FOLDER / "brain.h5") as server:
            volume, right = server["raw"], []

            def read(z):
                if np.array_equal(volume[z], self.expected["raw"][z]):
                    right.append(z)

            threads = [threading.Thread(target=read, args=(z,)) for z in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(right), list(range(12)))


class Strangers(Case):
    """Another user of the machine."""

    def as_nobody(self, function):
        """Runs a function in a process of another user, and returns its result, which is passed through a pipe as JSON."""
        reader, writer = os.pipe()
        # Python warns of forks beside threads. The threads here only read pipes, and hold no lock that the child needs.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                os.write(writer, json.dumps(function()).encode())
            except BaseException as error:
                os.write(writer, json.dumps(repr(error)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader, "rb") as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return json.loads(text)

    @unittest.skipIf(os.getuid() != 0, "only root can become another user")
    def test_another_user_of_the_machine_sees_nothing(self):
        with voltile.serve(FOLDER / "brain.h5") as server:
            process = f"/proc/{server._program._process.pid}"
            place, _, secret = server.address.rstrip("/").partition("/k/")
            box = "voxels/brain/raw/0/0-1_0-1_0-1.npy"

            def status(path):
                try:
                    with urllib.request.urlopen(f"{place}/{path}") as answer:
                        return answer.status
                except urllib.error.HTTPError as error:
                    return error.code

            def readable(name):
                try:
                    return (Path(process) / name).read_bytes().decode(errors="replace")
                except PermissionError:
                    return None

            # This user may read with the secret. This also imports all modules that a request needs, while they can be read.
            self.assertEqual((status(f"k/{secret}/{box}"), status(box)), (200, 401))
            addresses = [box, f"k/{'0' * 48}/{box}", "ndtilecache/tilecache/brain/raw/xy/0/0_0_0.png"]
            seen = self.as_nobody(
                lambda: {
                    "user": os.getuid(),
                    "datasets": json.loads(urllib.request.urlopen(f"{place}/datasets.json").read())["datasets"],
                    "statuses": [status(address) for address in addresses],
                    "environment": readable("environ"),
                    "memory": readable("maps"),
                    "command": readable("cmdline"),
                }
            )
            self.assertEqual(seen["user"], NOBODY)
            self.assertEqual((seen["datasets"], seen["statuses"]), ([], [401, 401, 401]))
            self.assertEqual((seen["environment"], seen["memory"]), (None, None))
            # `…access=[{ secrets = "/proc/self/fd/7" }]…`: the command names the file of the secret, which others cannot open.
            descriptor = seen["command"].partition("/proc/self/fd/")[2].partition('"')[0]
            self.assertTrue(descriptor.isdigit() and secret not in seen["command"])
            self.assertEqual(Path(f"{process}/fd/{descriptor}").read_text().strip(), secret)
            self.assertIn("PermissionError", self.as_nobody(lambda: Path(f"{process}/fd/{descriptor}").read_text()))


class Report(unittest.TextTestResult):
    def addSuccess(self, test):
        super().addSuccess(test)
        print(f"ok      {test._testMethodName[5:].replace('_', ' ')}", flush=True)


if __name__ == "__main__":
    cases = [globals()[name] for name in sys.argv[2:]]
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases))
    result = unittest.TextTestRunner(stream=sys.stdout, resultclass=Report, verbosity=0).run(suite)
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)
