"""What the tests of the program share.  Python's standard library only.

A test file is called with the program as its first argument; the rest of the arguments are its own.
"""
import array, os, pty, select, shutil, signal, struct, subprocess, sys, tempfile, time, unittest

PROGRAM = os.path.abspath(sys.argv[1])
ARGS = sys.argv[2:]


def clean_environment(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("SLUICE_") and k not in ("NO_COLOR", "HF_HOME", "XDG_CACHE_HOME")}
    env.update(more)
    return env


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.out[-500:]!r}\nstderr: {self.err[-1500:]!r}"


def run(*args, stdin=b"", env=None, timeout=300, **kwargs):
    p = subprocess.run([PROGRAM, *args], input=stdin, capture_output=True, timeout=timeout,
                       env=clean_environment(**(env or {})), **kwargs)
    return Result(p.returncode, p.stdout, p.stderr.decode("utf-8", "replace"))


def run_on_terminal(*args, interrupt_after=None, env=None, both=False):
    """stderr (and stdout, if `both`) is a terminal; Ctrl-C is typed once `interrupt_after` has been seen there."""
    try:
        master, slave = pty.openpty()
    except OSError as error:  # a chroot without /dev/pts, for example
        raise unittest.SkipTest(f"SKIPPED: no terminal can be made here: {error}")
    p = subprocess.Popen([PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=slave if both else subprocess.PIPE,
                         stderr=slave, env=clean_environment(**{"TERM": "xterm", **(env or {})}))
    os.close(slave)
    seen, sent, end = b"", False, time.time() + 60
    while time.time() < end:
        if select.select([master], [], [], 0.05)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:  # the other side has been closed
                break
            if not data:
                break
            seen += data
        if interrupt_after is not None and not sent and interrupt_after in seen:
            p.send_signal(signal.SIGINT)
            sent = True
    out = b""
    if not both:
        with p.stdout:
            out = p.stdout.read()
    code = p.wait(timeout=10)
    os.close(master)
    return Result(code, out, seen.decode("utf-8", "replace"))


def read_npy(path):
    """-> (shape, type, flat list of numbers)"""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    n = struct.unpack("<H", data[8:10])[0]
    assert (10 + n) % 64 == 0, n
    head = eval(data[10:10 + n].decode("ascii"), {"__builtins__": {}}, {"True": True, "False": False})
    assert head["fortran_order"] is False
    values = array.array({"<f4": "f", "<i4": "i"}[head["descr"]])
    values.frombytes(data[10 + n:])
    return tuple(head["shape"]), head["descr"], values.tolist()


def write_npy(path, shape, kind, values, fortran=False):
    head = f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(array.array({"<f4": "f", "<i4": "i", "<i8": "q"}[kind], values).tobytes())


class Case(unittest.TestCase):
    """Each test has a folder of its own, self.folder."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sluice-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def model(self, words="", tokenizer=True, name="model"):
        """A model of the stand-in."""
        os.makedirs(self.path(name), exist_ok=True)
        with open(self.path(name, "config.json"), "w") as f:
            f.write(words)
        if tokenizer:
            open(self.path(name, "tokenizer.json"), "w").close()
        return self.path(name)

    def files(self):
        return sorted(f for f in os.listdir(self.folder) if f != "model")

    def expect(self, result, code, *sentences):
        """The exit status, and words that the sentence on stderr must hold."""
        self.assertEqual(result.code, code, result)
        for s in sentences:
            self.assertIn(s, result.err, result)
        if code in (1, 2, 3):
            self.assertRegex(result.err, r"(?m)^sluice: .{10,}", result)
        return result


def main():
    unittest.main(argv=[sys.argv[0]], verbosity=1)
