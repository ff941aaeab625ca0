"""Random rule files of Koala's language and random requests, in virtual time: the library's engine
decides as the model does, by the same rule and with the same result."""

import ctypes
import json
import random

import koala_files
import weir
from hypothesis import example, given, settings
from hypothesis import strategies as st

START_NS = 1_709_654_400 * 10**9  # 16:00 UTC: a day begins in Shanghai
STEPS_NS = [0, 1, 10**6, 10**9 // 3, 10**9 - 1, 10**9, 2 * 10**9, 61 * 10**9, 3601 * 10**9, 6 * 3600 * 10**9]
TIMES = [1, 2, 60]
REQUESTS = 120


class Attribute(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p), ("len", ctypes.c_size_t)]


class Engine:
    """The engine of a rule file, with a table of its own."""

    def __init__(self, path):
        self.rules = ctypes.CDLL(str(weir.BUILD / "src" / "libweir_rules.so"))
        self.table, error = weir.Table(), weir.Error()
        self.config, self.engine = ctypes.c_void_p(), ctypes.c_void_p()
        for status in (
                self.rules.weir_config_read_file(str(path).encode(), ctypes.byref(self.config),
                                                 ctypes.byref(error)),
                weir.lib.weir_engine_open(self.config, self.table.handle, ctypes.byref(self.engine),
                                          ctypes.byref(error))):
            assert status == weir.OK, error.message.decode()

    def check(self, parameters, now):
        """Whether it passes, the rule that decided, and the result."""
        attributes = (Attribute * len(parameters))(*(
            Attribute(name.encode(), value.encode(), len(value.encode()))
            for name, value in parameters.items()))
        raw = weir.RawDecision()
        status = weir.lib.weir_engine_acquire(self.engine, attributes, ctypes.c_size_t(len(parameters)),
                                              weir.U64(1), weir.U64(now), ctypes.byref(raw))
        assert status == weir.OK
        decided = not raw.allowed or weir.lib.weir_reason_text(raw.reason) == b"listed"
        return (raw.allowed, int(raw.rule) if decided else None,
                json.loads(raw.result) if raw.result else None)

    def close(self):
        weir.lib.weir_engine_close.argtypes = [ctypes.c_void_p]
        weir.lib.weir_engine_close(self.engine)
        self.rules.weir_config_close.argtypes = [ctypes.c_void_p]
        self.rules.weir_config_close(self.config)


def expected(model, parameters, now):
    rule, result = model.decide(parameters, now, write=True)
    if rule is None:
        return True, None, None
    return rule.result == 1, rule.no, None if rule.result == 1 else result


@settings(max_examples=settings().max_examples // 5)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=0)
def test_every_decision_is_the_models(tmp_path_factory, seed):
    draw, directory = random.Random(seed), tmp_path_factory.mktemp("koala")
    koala_files.write_dicts(directory)
    text = koala_files.random_file(draw, TIMES)
    path = directory / "rules.conf"
    path.write_text(text, encoding="utf-8")
    model, engine, now = koala_files.as_model(text), Engine(path), START_NS
    try:
        few = [koala_files.random_parameters(draw) for _ in range(3)]
        for n in range(REQUESTS):
            now += draw.choice(STEPS_NS[:-2] if draw.random() < 0.9 else STEPS_NS)
            parameters = draw.choice([*few, koala_files.random_parameters(draw)])
            wanted = expected(model, parameters, now)
            assert engine.check(parameters, now) == wanted, f"{text}request {n}: {parameters} at {now}"
    finally:
        engine.close()


def test_leak_lets_exactly_as_many_through_in_any_of_its_times(tmp_path):
    """Defect 3, to the nanosecond: one that comes as the oldest leaves passes, none before."""
    path = tmp_path / "rules.conf"
    path.write_text("[rules]\nrule : [leak] [uid=+] [time=10; count=3] [result=2; return=1]\n[result]\n"
                    + "\n".join(f'{i} : {{ "Ret_type":{i}, "Ret_code":0 }}' for i in range(3)))
    engine, second = Engine(path), 10**9

    def passes(at):
        return engine.check({"uid": "1"}, START_NS + at)[0]

    assert [passes(at) for at in (0, 1, second, second)] == [True, True, True, False]
    assert [passes(10 * second + at) for at in (-1, 0, 0, 1, 2)] == [False, True, False, True, False]
    assert [passes(11 * second + at) for at in (-1, 0, 0)] == [False, True, False]
    engine.close()
