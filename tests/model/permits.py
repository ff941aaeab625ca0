"""Permits of limiters, through the public calls."""

import ctypes

import weir

OUTCOMES = ["success", "failure", "timeout", "ignored"]


class Permit(ctypes.Structure):
    _fields_ = [(name, weir.U64) for name in ("id", "until_ns", "cost", "reserved")]


lib = weir.lib
lib.weir_limiter_acquire_permit.argtypes = [
    ctypes.c_void_p, weir.U64, weir.U64, ctypes.POINTER(weir.RawDecision), ctypes.POINTER(Permit)]
lib.weir_limiter_refund_permit.argtypes = [
    ctypes.c_void_p, ctypes.POINTER(Permit), weir.U64, ctypes.POINTER(weir.RawDecision)]
lib.weir_limiter_report.argtypes = [
    ctypes.c_void_p, ctypes.POINTER(Permit), ctypes.c_int, weir.U64, weir.U64]

_KEY = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
lib.weir_acquire_permit.argtypes = [
    *_KEY, weir.U64, weir.U64, ctypes.POINTER(weir.RawDecision), ctypes.POINTER(Permit)]
lib.weir_refund_permit.argtypes = [
    *_KEY, ctypes.POINTER(Permit), weir.U64, ctypes.POINTER(weir.RawDecision)]
lib.weir_report.argtypes = [*_KEY, ctypes.POINTER(Permit), ctypes.c_int, weir.U64, weir.U64]
