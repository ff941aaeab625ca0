"""The client class in PHP that Koala's callers use, run by a real PHP."""

import json
import subprocess

from harness import PATIENCE, ROOT

RULES = """
[rules]
rule : [count] [act=ask; uid=+] [time=3600; count=4] [result=2; return=111]
rule : [count] [act=ask; vip=no; uid=+] [time=3600; count=2] [result=3; return=112]
rule : [leak] [page=+] [time=3600; count=5; erase1=2; erase2=3] [result=2; return=1201]
[result]
0 : { "Ret_type":0, "Ret_code":0, "Err_no":0, "Str_reason":"Allow", "Vcode_len":0 }
1 : { "Ret_type":1, "Ret_code":0, "Err_no":0, "Str_reason":"Allow", "Vcode_len":0 }
2 : { "Ret_type":2, "Ret_code":0, "Err_no":10, "Str_reason":"Deny", "Vcode_len":0 }
3 : { "Ret_type":3, "Ret_code":0, "Err_no":20, "Str_reason":"Vcode", "Vcode_len":4 }
"""
ALLOW = {"allowed": True, "reason": "Allow", "code": 0, "digits": 0}


def deny(code):
    return {"allowed": False, "reason": "Deny", "code": code, "digits": 0}


def test_koalas_php_class_works_unchanged(serve, tmp_path):
    (tmp_path / "rules.conf").write_text(RULES)
    server = serve("-c", tmp_path / "rules.conf", config=None)
    done = subprocess.run(["php", ROOT / "tests" / "clients" / "koala.php", str(server.http)],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    assert json.loads(done.stdout) == {
        "unknown": ALLOW,
        "before": ALLOW,
        "updated": [True, True],
        "count": 2,
        "written": [True, True],
        "after": deny(111),
        "complete": [deny(111)],
        "all": {"x": deny(111), "y": ALLOW},
        "full": deny(1201),
        "taken back": [True, 3],
        "more": [True, 0],
    }
