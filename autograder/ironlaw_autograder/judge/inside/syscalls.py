"""A seccomp filter: system calls that no student's code needs and that widen an attack.

Foremost the making of further namespaces, in which a process without rights becomes
root of its own small world and reaches far more of the kernel; then memory that escapes
every account, and sockets that lead out of the sandbox. Denied calls fail with an error
number, and the program goes on.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

# unshare, setns, mount, umount2, pivot_root, ptrace, process_vm_readv, process_vm_writev, bpf,
# perf_event_open, userfaultfd, add_key, request_key, keyctl, open_by_handle_at, and the
# newer mount calls: fsopen, fsconfig, fspick, fsmount, move_mount, open_tree, mount_setattr;
# io_uring_setup, pidfd_getfd, kcmp, fanotify_init, syslog.
_WIDER = {
    "x86_64": (272, 308, 165, 166, 155, 101, 310, 311, 321, 298, 323, 248, 249, 250, 304,
               430, 431, 433, 432, 429, 428, 442, 425, 438, 312, 300, 103),
    "aarch64": (97, 268, 40, 39, 41, 117, 270, 271, 280, 241, 282, 217, 218, 219, 265,
                430, 431, 433, 432, 429, 428, 442, 425, 438, 272, 262, 116),
}
# memfd_create, memfd_secret, shmget, semget, msgget: memory that no process has to map and no
# file system limits, so that nobody could say whose it is.
_UNCOUNTED = {"x86_64": (319, 447, 29, 64, 68), "aarch64": (279, 447, 194, 190, 186)}
# Memory shared without a file is the same thing by another call: mmap with both of these flags.
_MMAP = {"x86_64": 9, "aarch64": 222}
_SHARED_WITHOUT_FILE = 0x21  # MAP_SHARED and MAP_ANONYMOUS
_SOCKET = {"x86_64": 41, "aarch64": 198}
# AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: bounded by the sandbox's own empty network. Others
# are not, such as the virtual machine's line to its host (AF_VSOCK).
_FAMILIES = (1, 2, 10, 16)
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NAMESPACES = 0x7E020000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2


def program(machine: str) -> bytes:
    """The filter for `machine` (x86_64 or aarch64) as classic BPF."""
    denied = _FAIL | errno.EPERM
    steps = [_step(_LOAD, _ARCH), *_if(_EQUAL, _AUDIT_ARCH[machine], None, denied),
             _step(_LOAD, _NUMBER)]
    if machine == "x86_64":
        steps += _if(_AT_LEAST, 0x40000000, denied)  # the x32 names of the same calls
    for number in (*_WIDER[machine], *_UNCOUNTED[machine]):
        steps += _if(_EQUAL, number, denied)
    # The flags of clone3 lie in memory that a filter cannot read; libc falls back to clone.
    steps += _if(_EQUAL, _CLONE3, _FAIL | errno.ENOSYS)
    steps += _for_call(_CLONE[machine], 0, [*_if(_ANY_BIT, _NAMESPACES, denied),
                                            _step(_RETURN, _ALLOW)])
    steps += _for_call(_MMAP[machine], 3, [_step(_AND, _SHARED_WITHOUT_FILE),
                                           *_if(_EQUAL, _SHARED_WITHOUT_FILE, denied),
                                           _step(_RETURN, _ALLOW)])
    known = [step for family in _FAMILIES for step in _if(_EQUAL, family, _ALLOW)]
    steps += _for_call(_SOCKET[machine], 0,
                       [*known, _step(_RETURN, _FAIL | errno.EAFNOSUPPORT)])
    steps += [_step(_RETURN, _ALLOW)]
    return b"".join(steps)


def install() -> bool:
    """Bind this process and all that it starts; False where the machine is not known."""
    machine = platform.machine()
    if machine not in _WIDER:
        return False
    code = program(machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                  (_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(header), 0, 0)):
        if libc.prctl(*map(ctypes.c_ulong, words)) != 0:
            raise OSError(ctypes.get_errno(), "the system-call filter was refused")
    return True


def _for_call(number: int, argument: int, steps: list[bytes]) -> list[bytes]:
    """`steps` on one argument of one system call; they must end with a return."""
    return [_step(_EQUAL, number, 0, len(steps) + 1),
            _step(_LOAD, _ARGUMENTS + 8 * argument), *steps]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def _if(code: int, value: int, then: int | None, otherwise: int | None = None) -> list[bytes]:
    """Return `then` when the test holds (or `otherwise` when it does not); else go on."""
    if otherwise is not None:
        return [_step(code, value, 1, 0), _step(_RETURN, otherwise)]
    assert then is not None
    return [_step(code, value, 0, 1), _step(_RETURN, then)]
