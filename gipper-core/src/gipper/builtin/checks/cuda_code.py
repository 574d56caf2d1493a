"""What a fresh python3 on the machine runs: calls of the driver library through ctypes, told as JSON lines.

The code asks for nothing newer than Python 3.5. Every line has `path`, the LD_LIBRARY_PATH that the
process really had. The last line is the answer: `count` on success, else the `call` that failed with its
`error` (the driver's number) and `name`, or a `text`.
"""

from __future__ import annotations

from typing import Final

_BEGIN: Final = r"""
import json, os, sys

def tell(**answer):
    answer["path"] = os.environ.get("LD_LIBRARY_PATH", "")
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()

def stop(**answer):
    tell(**answer)
    sys.exit(0)

try:
    import ctypes
except ImportError as error:
    stop(call="python3", text=str(error))
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    stop(call="load", text=str(error))

def name_of(code):
    text = ctypes.c_char_p()
    try:
        cuda.cuGetErrorName(code, ctypes.byref(text))
    except AttributeError:
        pass
    return (text.value or b"").decode("ascii", "replace")

def must(call, *args, **where):
    try:
        code = getattr(cuda, call)(*args)
    except AttributeError:
        stop(call=call, text="the driver library lacks it", **where)
    if code:
        stop(call=call, error=code, name=name_of(code), **where)

must("cuInit", 0)
count = ctypes.c_int()
must("cuDeviceGetCount", ctypes.byref(count))
"""

INIT: Final = _BEGIN + 'tell(call="", count=count.value)\n'

# Each thread stores index * index + seed. The dialect is as old as the card allows: what a driver
# compiles for a card of today it compiles for one of tomorrow. Lines of the table: least compute
# capability, PTX version, target.
_KERNEL: Final = r'''
PTX = """
.version %s
.target %s
.address_size 64
.visible .entry gipper(.param .u64 p_out, .param .u32 p_seed)
{
    .reg .b32 %%r<6>;
    .reg .b64 %%d<4>;
    ld.param.u64 %%d1, [p_out];
    ld.param.u32 %%r1, [p_seed];
    cvta.to.global.u64 %%d2, %%d1;
    mov.u32 %%r2, %%ctaid.x;
    mov.u32 %%r3, %%ntid.x;
    mov.u32 %%r4, %%tid.x;
    mad.lo.u32 %%r5, %%r2, %%r3, %%r4;
    mad.lo.u32 %%r0, %%r5, %%r5, %%r1;
    mul.wide.u32 %%d3, %%r5, 4;
    add.u64 %%d2, %%d2, %%d3;
    st.global.u32 [%%d2], %%r0;
    ret;
}
"""
DIALECTS = ((7.5, "6.3", "sm_75"), (5.0, "4.3", "sm_50"), (0.0, "3.2", "sm_30"))
BLOCKS, THREADS = 8, 128
TOTAL = BLOCKS * THREADS

def capability(device):
    parts = []
    for attribute in (75, 76):
        value = ctypes.c_int()
        must("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        parts.append(str(value.value))
    return ".".join(parts)

def run(number):
    device, context = ctypes.c_int(), ctypes.c_void_p()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    at = {"device": number}
    must("cuDeviceGet", ctypes.byref(device), number, **at)
    able = capability(device)
    version, target = next(d[1:] for d in DIALECTS if float(able) >= d[0])
    must("cuCtxCreate_v2", ctypes.byref(context), 0, device, **at)
    text = (PTX % (version, target)).encode("ascii")
    must("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(text), **at)
    must("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"gipper"), **at)
    address, seed = ctypes.c_uint64(), ctypes.c_uint32(int.from_bytes(os.urandom(3), "big"))
    found = (ctypes.c_uint32 * TOTAL)()
    must("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(ctypes.sizeof(found)), **at)
    given = (ctypes.c_void_p * 2)(ctypes.addressof(address), ctypes.addressof(seed))
    must("cuLaunchKernel", function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, given, None, **at)
    must("cuCtxSynchronize", **at)
    must("cuMemcpyDtoH_v2", found, address, ctypes.c_size_t(ctypes.sizeof(found)), **at)
    wrong = sum(1 for i in range(TOTAL) if found[i] != (i * i + seed.value) % 2 ** 32)
    if wrong:
        stop(call="compare", text="%d of %d results are wrong" % (wrong, TOTAL), **at)
    must("cuCtxDestroy_v2", context, **at)
    tell(call="ran", device=number, capability=able)

for number in range(count.value):
    tell(call="begin", device=number)
    run(number)
tell(call="", count=count.value)
'''

KERNEL: Final = _BEGIN + _KERNEL
