"""Permits of limiters and of keys of tables, through the public calls."""

import ctypes

import weir

OUTCOMES = ["success", "failure", "timeout", "ignored"]


class Permit(ctypes.Structure):
    _fields_ = [(name, weir.U64) for name in ("id", "until_ns", "cost", "reserved")]


class Ask(ctypes.Structure):
    _fields_ = [(name, weir.U64) for name in ("cost", "priority", "now_ns", "deadline_ns")] + [
        ("permit", ctypes.c_void_p), ("permits", ctypes.c_void_p), ("reserved", weir.U64 * 2)]


class Report(ctypes.Structure):
    _fields_ = [("outcome", ctypes.c_int), ("latency_ns", weir.U64), ("now_ns", weir.U64),
                ("reserved", weir.U64 * 1)]


lib = weir.lib
_HANDLE, _DECISION, _PERMIT = ctypes.c_void_p, ctypes.POINTER(weir.RawDecision), ctypes.POINTER(Permit)
_KEY = [_HANDLE, _HANDLE, weir.Key]
lib.weir_limiter_ask.argtypes = [_HANDLE, ctypes.POINTER(Ask), _DECISION]
lib.weir_limiter_refund_permit.argtypes = [_HANDLE, _PERMIT, weir.U64, _DECISION]
lib.weir_limiter_report.argtypes = [_HANDLE, _PERMIT, ctypes.POINTER(Report)]
lib.weir_ask.argtypes = [*_KEY, ctypes.POINTER(Ask), _DECISION]
lib.weir_refund_permit.argtypes = [*_KEY, _PERMIT, weir.U64, _DECISION]
lib.weir_report.argtypes = [*_KEY, _PERMIT, ctypes.POINTER(Report)]


def _ask(cost, now, permit):
    return ctypes.byref(Ask(cost=cost or weir.ZERO, now_ns=now, permit=ctypes.cast(permit, ctypes.c_void_p)))


def _report(outcome, latency, now):
    return ctypes.byref(Report(outcome=outcome, latency_ns=latency, now_ns=now))


def limiter_permit(limiter, cost, now, raw, permit):
    return lib.weir_limiter_ask(limiter, _ask(cost, now, permit), raw)


def limiter_report(limiter, permit, outcome, latency, now):
    return lib.weir_limiter_report(limiter, permit, _report(outcome, latency, now))


def key_permit(table, limit, key, cost, now, raw, permit):
    return lib.weir_ask(table, limit, weir.Key(key, len(key)), _ask(cost, now, permit), raw)


def key_refund(table, limit, key, permit, now, raw):
    return lib.weir_refund_permit(table, limit, weir.Key(key, len(key)), permit, now, raw)


def key_report(table, limit, key, permit, outcome, latency, now):
    return lib.weir_report(table, limit, weir.Key(key, len(key)), permit, _report(outcome, latency, now))


def key_force(table, limit, key, how, until, now):
    return lib.weir_force(table, limit, weir.Key(key, len(key)), how, until, now)
