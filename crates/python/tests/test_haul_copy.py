"""What haul_copy promises: `python tests/test_haul_copy.py`, with the package installed."""

import asyncio
import doctest
import errno
import functools
import hashlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import unittest.mock
from pathlib import Path

import haul_copy

HERE = Path(__file__).resolve().parent
LARGE = 256 << 20


def write(path, contents):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "wb") as file:
        file.write(contents)


def tree_of(top, times=True):
    """Everything that shutil.copytree keeps of a tree."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in [".", *folders, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            kept = [kind]
            if stat.S_ISLNK(kind):
                kept.append(os.readlink(path))
            else:
                names = sorted(os.listxattr(path))
                kept += [status.st_mode, times and status.st_mtime_ns, [(name, os.getxattr(path, name)) for name in names]]
            if stat.S_ISREG(kind):
                kept.append(Path(os.fsdecode(path)).read_bytes())
            found[os.path.relpath(path, top)] = kept
    return found


def raised(function, *arguments, **keywords):
    """What it raises, in words: class, arguments and names."""
    try:
        function(*arguments, **keywords)
    except Exception as error:
        names = (getattr(error, name, None) for name in ("filename", "filename2"))
        return (type(error), str(error), *names)
    return None


class InTemporaryDirectory(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="haul-python-")
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        before = os.getcwd()
        os.chdir(self.top)
        self.addCleanup(os.chdir, before)

    def make_tree(self, src="src"):
        write(f"{src}/a", b"contents")
        write(f"{src}/folder/inner/b", b"x" * 100_000)
        write(f"{src}/folder/odd [n]ame*?\\", b"odd")
        write(os.fsencode(src) + b"/folder/not-utf8-\xff", b"bytes")
        write(f"{src}/empty", b"")
        os.makedirs(f"{src}/nothing")
        os.symlink("a", f"{src}/link")
        os.symlink("folder", f"{src}/link-to-folder")
        os.setxattr(f"{src}/a", "user.note", b"kept")
        os.setxattr(f"{src}/folder", "user.note", b"kept, too")
        os.chmod(f"{src}/a", 0o4751)
        os.chmod(f"{src}/folder", 0o750)
        for number, path in enumerate((f"{src}/a", f"{src}/folder/inner", f"{src}/folder", src)):
            os.utime(path, ns=(10**18 + number, 10**18 + 123_456_789 + number))


class AsShutil(InTemporaryDirectory):
    """The same call of shutil's function and of ours, and the same of what comes of it."""

    def both_trees(self, prepare=lambda dst: None, times=True, **keywords):
        outcomes = []
        for copytree, dst in ((shutil.copytree, "theirs"), (haul_copy.copytree, "ours")):
            prepare(dst)
            errors = None
            try:
                self.assertEqual(copytree("src", dst, **keywords), dst)
            except shutil.Error as error:
                errors = sorted((one, other.replace(dst, "dst"), why.replace(dst, "dst")) for one, other, why in error.args[0])
            outcomes.append((tree_of(dst, times), errors))
        self.assertEqual(*outcomes)
        return outcomes[0]

    def test_a_tree(self):
        self.make_tree()
        tree, errors = self.both_trees()
        self.assertIsNone(errors)
        self.assertGreater(len(tree), 12)

    def test_a_tree_without_links(self):
        self.make_tree()
        os.remove("src/link"), os.remove("src/link-to-folder")
        os.rename("src", "other")
        os.symlink("other", "src")
        self.both_trees()

    def test_a_tree_with_its_links(self):
        self.make_tree()
        self.both_trees(symlinks=True)

    def test_names_that_ignore_returns(self):
        self.make_tree()
        calls = []

        def ignore(directory, names):
            calls.append((directory, sorted(names)))
            return [name for name in names if name.startswith(("odd", "inner", "emp"))]

        self.both_trees(ignore=ignore)
        half = len(calls) // 2
        self.assertEqual(sorted(calls[:half]), sorted(calls[half:]))
        self.assertIn("src/folder", [directory for directory, _ in calls])

    def test_patterns_that_ignore_returns(self):
        self.make_tree()
        tree, _ = self.both_trees(ignore=haul_copy.ignore_patterns("*[[]n]*", "b"), symlinks=True)
        self.assertNotIn("folder/inner/b", tree)

    def test_names_that_are_no_text_can_be_ignored(self):
        self.make_tree()
        self.both_trees(ignore=lambda _, names: {name for name in names if name.startswith("not-utf8")})

    def test_dangling_links(self):
        self.make_tree()
        os.symlink("gone", "src/folder/dangling")
        _, errors = self.both_trees()
        self.assertEqual([one for one, _, _ in errors], ["src/folder/dangling", "src/link-to-folder/dangling"])

    def test_dangling_links_that_are_ignored(self):
        self.make_tree()
        os.symlink("gone", "src/folder/dangling")
        # shutil looks for what they lead to from the working directory, and leaves others out as well.
        haul_copy.copytree("src", "dst", ignore_dangling_symlinks=True)
        self.assertEqual(Path("dst/link").read_bytes(), b"contents")
        self.assertFalse(os.path.lexists("dst/folder/dangling"))

    def test_named_pipes_are_errors_and_the_rest_is_copied(self):
        self.make_tree()
        os.mkfifo("src/folder/pipe")
        _, errors = self.both_trees(symlinks=True)
        self.assertEqual(errors, [("src/folder/pipe", "dst/folder/pipe", "`src/folder/pipe` is a named pipe")])

    def test_named_pipes_at_the_destination_are_errors(self):
        write("src/a", b"contents"), write("src/b", b"contents"), write("src/c", b"contents")
        os.mkfifo("pipe")

        def prepare(dst):
            os.makedirs(dst)
            os.mkfifo(f"{dst}/a")
            os.symlink("../pipe", f"{dst}/b")
            for pipe in (f"{dst}/a", "pipe"):
                # Who writes waits for one who reads.
                self.addCleanup(os.close, os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))

        _, errors = self.both_trees(prepare, False, dirs_exist_ok=True)
        self.assertEqual([one for one, _, _ in errors], ["src/a", "src/b"])

    def test_sockets_are_errors(self):
        self.make_tree()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("src/socket")
            with self.assertRaises(shutil.Error) as caught:
                haul_copy.copytree("src", "dst")
        self.assertEqual([one for one, _, _ in caught.exception.args[0]], ["src/socket"])
        self.assertFalse(os.path.lexists("dst/socket"))

    def test_a_destination_that_exists(self):
        self.make_tree()

        def prepare(dst):
            write(f"{dst}/a", b"old and longer than the new one")
            write(f"{dst}/folder/other", b"stays")
            os.utime(f"{dst}/folder/other", ns=(1, 2))

        prepare("dst")
        before = tree_of("dst")
        self.assertEqual(raised(shutil.copytree, "src", "dst"), raised(haul_copy.copytree, "src", "dst"))
        self.assertEqual(tree_of("dst"), before)
        self.both_trees(prepare, dirs_exist_ok=True)

    def test_a_link_that_exists_at_the_destination(self):
        self.make_tree()
        _, errors = self.both_trees(lambda dst: write(f"{dst}/link", b"old"), False, symlinks=True, dirs_exist_ok=True)
        self.assertEqual(len(errors), 1)

    def test_links_to_directories_at_the_destination(self):
        os.makedirs("s/sub")
        write("s/sub/f", b"new")
        for name, copytree in (("theirs", shutil.copytree), ("ours", haul_copy.copytree)):
            os.makedirs(f"{name}-else")
            os.makedirs(f"{name}-real")
            os.symlink(f"../{name}-else", f"{name}-real/sub")
            os.symlink(f"{name}-real", name)
            copytree("s", name, dirs_exist_ok=True)
            self.assertEqual(os.listdir(f"{name}-else"), ["f"])
            self.assertTrue(os.path.islink(f"{name}-real/sub") and os.path.islink(name))

    def test_a_folder_where_a_file_is(self):
        self.make_tree()
        os.makedirs("dst/a")
        with self.assertRaises(shutil.Error) as caught:
            haul_copy.copytree("src", "dst", dirs_exist_ok=True)
        # shutil puts such a file into the folder.
        self.assertEqual({(one, other) for one, other, _ in caught.exception.args[0]}, {("src/a", "dst/a")})
        self.assertEqual(os.listdir("dst/a"), [])

    def test_a_copy_function(self):
        self.make_tree()
        self.both_trees(times=False, copy_function=shutil.copyfile)
        with self.assertRaises(ValueError):
            haul_copy.copytree("src", "x", copy_function=shutil.copyfile, durable=True)

    def test_what_cannot_be_a_tree(self):
        self.make_tree()
        for src, dst in (("missing", "x"), ("src/a", "x"), ("src\0", "x"), ("src", "x\0"), ("src", "src/a/x"), ("", "x")):
            self.assertEqual(raised(shutil.copytree, src, dst), raised(haul_copy.copytree, src, dst), (src, dst))
        for wrong in (3.5, None, object()):
            self.assertEqual(raised(shutil.copytree, wrong, "x")[0], raised(haul_copy.copytree, wrong, "x")[0])

    def test_files(self):
        write("a", b"contents")
        os.chmod("a", 0o640)
        os.utime("a", ns=(10**18, 10**18 + 7))
        os.symlink("a", "link")
        os.symlink("gone", "dangling")
        os.mkfifo("pipe")
        os.mkdir("folder")
        closed = os.open("a", os.O_RDONLY)
        os.close(closed)
        cases = [
            ("a", "new"), ("a", "a"), ("link", "a"), ("a", "link"), ("link", "new"), ("dangling", "new"), ("a", "dangling"),
            ("missing", "new"), ("a", "folder"), ("folder", "new"), ("pipe", "new"), ("a", "pipe"), ("a", "none/new"),
            ("a", "none/"), ("a\0", "new"), ("a", "new\0"), (b"a", b"new"), (b"a", "new"), (Path("a"), Path("new")),
            ("\udcff", "new"), ("a", "\udcff"), ("a", "\ud800"), (closed, "new"), ("a", closed), (-1, "new"), (None, "new"),
            ("a", None), ("a", 3.5), ("/proc/version", "new"), ("/proc/self/mounts", "new"), ("/dev/null", "new"),
            ("a", "/proc/none"), ("a" * 300, "new"),
        ]
        for name in ("copyfile", "copy", "copy2"):
            for follow in (True, False):
                for src, dst in cases:
                    outcomes = []
                    for module in (shutil, haul_copy):
                        for made in ("new", "gone", "folder/a", b"\xff"):
                            if os.path.lexists(made):
                                os.remove(made)
                        function = functools.partial(getattr(module, name), follow_symlinks=follow)
                        outcomes.append((raised(function, src, dst), tree_of(".")["a"][-1], {
                            made: os.path.lexists(made) and (os.lstat(made).st_mode, os.lstat(made).st_size)
                            for made in ("new", "gone", "folder/a", b"\xff")
                        }))
                    with self.subTest(function=name, src=src, dst=dst, follow_symlinks=follow):
                        self.assertEqual(*outcomes)

    def test_what_the_kernel_says_while_data_is_moved(self):
        write("a", b"contents")
        with self.assertRaises(OSError) as caught:
            haul_copy.copyfile("a", "/dev/full")
        error = caught.exception
        self.assertEqual((error.errno, error.filename, error.filename2), (errno.ENOSPC, "a", "/dev/full"))

    def test_attributes_that_cannot_be_set_are_errors(self):
        self.make_tree()
        # Those of folders are set by setxattrat(2), which strace learnt late.
        os.removexattr("src/folder", "user.note")
        setting_xattrs, setting_times = "setxattr,lsetxattr,fsetxattr", "utimensat"
        for calls, error, tolerated in (
            (setting_xattrs, "ENOSPC", False),
            (setting_xattrs, "EPERM", True),
            (setting_xattrs, "EOPNOTSUPP", True),
            (setting_xattrs, "EINVAL", True),
            (setting_xattrs, "EACCES", sys.version_info >= (3, 12)),
            (setting_times, "EPERM", False),
        ):
            outcomes = []
            for module in ("shutil", "haul_copy"):
                program = textwrap.dedent(f"""
                    import os, shutil, haul_copy
                    try:
                        {module}.copytree("src", "dst", symlinks=True)
                    except shutil.Error as error:
                        print(sorted({{(os.fspath(one), other, why) for one, other, why in error.args[0]}}))
                """)
                inject = [f"--trace={calls}", f"--inject={calls}:error={error}"]
                command = ["strace", "--follow-forks", "--output=/dev/null", *inject, sys.executable, "-c", program]
                ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=300)
                outcomes.append(ran.stdout)
                self.assertEqual(Path("dst/folder/inner/b").read_bytes(), b"x" * 100_000)
                shutil.rmtree("dst")
            with self.subTest(calls=calls, error=error):
                self.assertEqual(*outcomes)
                self.assertEqual(outcomes[0] == "", tolerated)

    def test_audit_events(self):
        write("src/a", b"")
        heard = []
        sys.addaudithook(lambda event, arguments: heard.append((event, arguments)) if event.startswith("shutil.copy") else None)
        haul_copy.copyfile("src/a", "b")
        haul_copy.copytree("src", "dst")
        self.assertEqual(heard, [("shutil.copyfile", ("src/a", "b")), ("shutil.copytree", ("src", "dst"))])


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class WithoutRights(InTemporaryDirectory):
    def test_errors_are_those_of_shutil_and_the_rest_is_copied(self):
        self.make_tree()
        os.chmod("src/folder", 0o755)
        write("src/folder/secret", b"secret")
        os.chmod("src/folder/secret", 0)
        os.makedirs("src/closed/inner")
        os.chmod("src/closed", 0)
        os.makedirs("out")
        os.chmod("out", 0o777)
        os.chmod(self.top, 0o755)
        outcomes = []
        for function, dst in ((shutil.copytree, "out/theirs"), (haul_copy.copytree, "out/ours")):
            child = os.fork()
            if child == 0:
                try:
                    os.setgroups([]), os.setgid(65534), os.setuid(65534)
                    try:
                        function("src", dst)
                        text = "nothing was raised"
                    except shutil.Error as error:
                        text = repr(sorted((one, why.replace(dst, "dst")) for one, _, why in error.args[0]))
                    Path(dst, "errors").write_text(text)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            outcomes.append(Path(dst, "errors").read_text())
            self.assertEqual(Path(dst, "folder/inner/b").read_bytes(), b"x" * 100_000)
        self.assertEqual(*outcomes)
        self.assertIn("Permission denied: 'src/folder/secret'", outcomes[0])


    def test_attributes_of_a_file_of_another_user_are_errors(self):
        self.make_tree()
        os.remove("src/link"), os.remove("src/link-to-folder")
        os.chmod("src", 0o755), os.chmod("src/a", 0o755), os.chmod("src/folder", 0o755)
        os.chmod(self.top, 0o755)
        outcomes = []
        for module in (shutil, haul_copy):
            os.makedirs("dst/folder")
            write("dst/a", b"old")
            os.chmod("dst/a", 0o666), os.chmod("dst/folder", 0o777)
            os.chown("dst", 65534, 65534)
            outcomes.append(self.as_nobody(module.copytree, "src", "dst", dirs_exist_ok=True))
            self.assertEqual(Path("dst/a").read_bytes(), b"contents")
            self.assertEqual(Path("dst/folder/inner/b").read_bytes(), b"x" * 100_000)
            shutil.rmtree("dst")
        self.assertEqual(*outcomes)
        self.assertEqual([one for one, _, _ in outcomes[0]], ["src/a", "src/folder"])

    def test_a_durable_copy_goes_into_a_directory_that_cannot_be_read(self):
        write("a", b"contents")
        os.mkdir("box")
        os.chmod("box", 0o733), os.chmod(self.top, 0o755)
        self.assertEqual(self.as_nobody(haul_copy.copy2, "a", "box/a", durable=True), [])

    def as_nobody(self, function, *arguments, **keywords):
        """What shutil.Error says when another user calls it."""
        groups = os.getgroups()
        os.setgroups([]), os.setegid(65534), os.seteuid(65534)
        try:
            function(*arguments, **keywords)
            return []
        except shutil.Error as error:
            return sorted((os.fspath(one), other, why) for one, other, why in error.args[0])
        finally:
            os.seteuid(0), os.setegid(0), os.setgroups(groups)


class BesideShutil(InTemporaryDirectory):
    def test_a_signal_stops_a_copy(self):
        # Python does so by itself unless it was started with the signal ignored, as in the background of a shell.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        for function in (haul_copy.copytree, haul_copy.replicate, lambda src, dst, **more: haul_copy.copyfile(src + "/0", dst, **more)):
            write("src/0", b"")
            for number in range(8):
                os.truncate(os.open(f"src/{number}", os.O_CREAT | os.O_WRONLY), LARGE)
                write(f"src/{number}-", os.urandom(1 << 20))
            seen = []

            def progress(*now):
                seen.append(now)
                # To this thread: another one might get it when the copy is over.
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)

            with self.assertRaises(KeyboardInterrupt):
                function("src", "dst", progress=progress)
            self.assertEqual(len(seen), 1)
            shutil.rmtree("dst") if os.path.isdir("dst") else os.remove("dst")

    def test_what_only_closing_the_file_says_is_raised(self):
        write("source", b"bytes")
        Path("dest").touch()
        program = "import haul_copy; haul_copy.copyfile('source', 'dest')"
        # Whoever closes it first hears of it, as with NFS.
        inject = ["--trace=close", "--inject=close:error=ENOSPC:when=1", "--trace-path=dest"]
        command = ["strace", "--follow-forks", "--output=/dev/null", *inject, sys.executable, "-c", program]
        ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertIn("OSError: [Errno 28] No space left on device", ran.stderr)

    def test_a_signal_stops_the_copy_of_a_device_that_never_ends(self):
        class Enough(Exception):
            pass

        def stop(number, frame):
            raise Enough

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, stop))
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with self.assertRaises(Enough):
            haul_copy.copyfile("/dev/zero", "/dev/null")

    def test_what_progress_raises_is_raised(self):
        self.make_tree()

        def progress(moved, files):
            raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            haul_copy.copytree("src", "dst", progress=progress)

    def test_progress_comes_to_all_bytes(self):
        self.make_tree()
        seen = []
        haul_copy.copytree("src", "dst", symlinks=True, progress=lambda *now: seen.append(now))
        self.assertEqual(seen[-1][0], len(b"contents") + 100_000 + len(b"odd") + len(b"bytes"))
        self.assertEqual(seen, sorted(seen))

    def test_a_result_says_what_was_done(self):
        self.make_tree()
        os.link("src/a", "src/other-name")
        for exclude in ("empty", b"empty"):
            with self.assertRaises(TypeError):
                haul_copy.replicate("src", "dst", exclude=exclude)
        result = haul_copy.replicate("src", "dst", digest="sha256", exclude=["/nothing", "empty"])
        self.assertEqual((result.copied, result.hard_links, result.symbolic_links, result.excluded), (4, 1, 2, 2))
        self.assertEqual(result.bytes, 100_000 + len("contentsoddbytes"))
        self.assertEqual(result.digests["dst/folder/inner/b"], hashlib.sha256(b"x" * 100_000).hexdigest())
        self.assertEqual(os.stat("dst/a").st_ino, os.stat("dst/other-name").st_ino)

    def test_an_error_has_its_result(self):
        write("src/a", b"new")
        write("src/b", b"copied")
        os.makedirs("dst/a")
        with self.assertRaises(haul_copy.Error) as caught:
            haul_copy.replicate("src", "dst")
        (problem,) = caught.exception.result.errors
        self.assertEqual((problem.kind, problem.path), ("CannotOverwriteDirectory", "dst/a"))
        self.assertIsInstance(caught.exception, shutil.Error)
        self.assertEqual(Path("dst/b").read_bytes(), b"copied")

    def test_a_mirror_is_compared(self):
        self.make_tree()
        haul_copy.mirror("src", "dst")
        self.assertEqual(haul_copy.compare("src", "dst"), [])
        write("dst/a", b"CONTENTS")
        write("dst/more", b"")
        differences = {(difference.copy, difference.what) for difference in haul_copy.compare("src", "dst")}
        self.assertTrue({("dst/more", "only in copy"), ("dst/a", "contents")} <= differences, differences)
        self.assertEqual(haul_copy.mirror("src", "dst").deleted, 1)
        self.assertEqual(haul_copy.compare("src", "dst"), [])

    def test_keywords_are_obeyed(self):
        self.make_tree()
        write("src/large", os.urandom(3 << 20))
        for keywords in ({"durable": True}, {"verify": True}, {"reflink": "never"}, {"jobs": 1}):
            haul_copy.copytree("src", "dst", symlinks=True, **keywords)
            self.assertEqual(tree_of("src"), tree_of("dst"), keywords)
            shutil.rmtree("dst")
            if "jobs" not in keywords:
                haul_copy.copyfile("src/large", "copy", **keywords)
                self.assertEqual(Path("src/large").read_bytes(), Path("copy").read_bytes())

    def synced_by(self, call):
        """What is synced after everything is made and has its attributes: the system call, and the name of the file."""
        changes = ("utimensat", "chmod", "fchmodat", "symlink", "symlinkat", "mkdir", "mkdirat")
        traced = ",".join(["fsync", "syncfs", *(f"?{change}" for change in changes)])
        command = ["strace", "--follow-forks", "--decode-fds=path", "--output=calls", f"--trace={traced}"]
        program = f"import haul_copy; haul_copy.{call}"
        subprocess.run([*command, sys.executable, "-c", program], check=True, timeout=300)
        synced = []
        for line in Path("calls").read_text().splitlines():
            sync = re.search(r"\b(fsync|syncfs)\(\d+<(.*)>\) = 0", line)
            if sync:
                synced.append((sync[1], os.path.basename(sync[2])))
            elif "(" in line:
                synced.clear()
        return synced

    def test_durable_files_are_synced_with_attributes_and_names(self):
        write("a", b"contents")
        os.symlink("a", "link")
        os.mkdir("folder"), os.mkdir("other")
        os.symlink("../other/target", "folder/through")
        for name in ("copyfile", "copy", "copy2"):
            for dst, synced in (
                ("folder/new", [("fsync", "new"), ("fsync", "folder")]),
                ("folder/through", [("fsync", "target"), ("fsync", "other")]),
            ):
                with self.subTest(function=name, dst=dst):
                    self.assertEqual(self.synced_by(f"{name}('a', '{dst}', durable=True)"), synced)
                    self.assertEqual(self.synced_by(f"{name}('a', '{dst}')"), [])
            with self.subTest(function=name, dst="link"):
                synced = self.synced_by(f"{name}('link', 'folder/link', follow_symlinks=False, durable=True)")
                self.assertEqual(synced, [("syncfs", "folder")])
                os.remove("folder/link")

    def test_durable_trees_are_synced_also_where_shutil_makes_them(self):
        write("src/folder/inner/b", b"b")
        os.symlink("folder", "src/link")
        os.makedirs("src/empty")
        os.makedirs("dst")
        call = "copytree('src', 'dst', symlinks=True, dirs_exist_ok=True, durable=True)"
        ((sync, name),) = self.synced_by(call)
        self.assertEqual(sync, "syncfs")
        self.assertIn(name, ("dst", "inner"))
        # A destination in its source.
        ((sync, _),) = self.synced_by("copytree('src', 'src/none/below', durable=True)")
        self.assertEqual(sync, "syncfs")

    def test_filesystems_that_links_of_a_durable_tree_lead_to_are_synced(self):
        elsewhere = "/dev/shm"
        if not os.access(elsewhere, os.W_OK) or os.stat(elsewhere).st_dev == os.stat(".").st_dev:
            self.skipTest("there is no second filesystem")
        elsewhere = tempfile.mkdtemp(prefix="haul-python-", dir=elsewhere)
        self.addCleanup(shutil.rmtree, elsewhere)
        os.makedirs("src/folder/empty")
        os.makedirs("dst")
        os.symlink(elsewhere, "dst/folder")
        synced = self.synced_by("copytree('src', 'dst', symlinks=True, dirs_exist_ok=True, durable=True)")
        self.assertEqual(synced, [("syncfs", "dst"), ("syncfs", os.path.basename(elsewhere))])

    def test_words_that_mean_nothing_are_errors(self):
        write("src/a", b"")
        for keywords in ({"reflink": "maybe"}, {"verify": "twice"}, {"digest": "crc"}, {"exclude": ["["]}, {"jobs": 0}):
            with self.subTest(**keywords), self.assertRaises(ValueError):
                haul_copy.replicate("src", "dst", **keywords)
        self.assertFalse(os.path.exists("dst"))

    def test_what_exists_stays_if_a_copy_is_refused(self):
        write("a", b"new")
        write("b", b"old")
        with self.assertRaises(ValueError):
            haul_copy.copyfile("a", "b", reflink="maybe")
        self.assertEqual(Path("b").read_bytes(), b"old")
        try:
            haul_copy.copyfile("a", "b", reflink="always")
        except OSError:
            self.assertEqual(Path("b").read_bytes(), b"old")
        else:
            self.assertEqual(Path("b").read_bytes(), b"new")

    def test_links_that_appear_while_a_tree_is_copied_are_errors(self):
        write("src/a", b"contents")

        def look(src):
            os.symlink("a", "src/late")
            return False

        with unittest.mock.patch("haul_copy._shutil._has_links", look), self.assertRaisesRegex(shutil.Error, "appeared"):
            haul_copy.copytree("src", "dst")

    def test_threads_copy_at_the_same_time(self):
        self.make_tree()
        failed = []

        def work(number):
            try:
                for turn in range(5):
                    haul_copy.copytree("src", f"dst{number}-{turn}", symlinks=True)
                    if tree_of("src") != tree_of(f"dst{number}-{turn}"):
                        failed.append(number)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])


class Asynchronous(InTemporaryDirectory):
    def test_a_copy_is_followed_and_awaited(self):
        self.make_tree()

        async def main():
            running = haul_copy.start("src", "dst")
            steps = [step async for step in running]
            return steps, await running

        steps, result = asyncio.run(main())
        self.assertEqual(steps[-1][0], result.bytes)
        self.assertEqual(haul_copy.compare("src", "dst"), [])

    def test_a_copy_is_cancelled(self):
        for number in range(20):
            write(f"src/{number}", os.urandom(4 << 20))

        async def main():
            running = haul_copy.start("src", "dst", durable="file")
            running.cancel()
            await running

        with self.assertRaises(haul_copy.Cancelled):
            asyncio.run(main())


class Examples(InTemporaryDirectory):
    def test_the_examples_of_the_documentation(self):
        write("photos/1.jpg", os.urandom(1000))
        write("photos/summer/2.jpg", os.urandom(1000))
        for text in (HERE.parent / "README.md",):
            failed, tried = doctest.testfile(str(text), module_relative=False)
            self.assertEqual((failed, tried > 5), (0, True), text)
        shutil.rmtree("backup"), shutil.rmtree("again", ignore_errors=True)
        failed, tried = doctest.testmod(haul_copy)
        self.assertEqual((failed, tried > 1), (0, True))


if __name__ == "__main__":
    unittest.main()
