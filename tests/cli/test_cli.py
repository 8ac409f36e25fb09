"""The command: one line and exit code 2 for a mistake, never a traceback."""

import subprocess
import sys
import time

import pytest

from duet.cli import main, rank


def run(capsys, *arguments):
    try:
        code = main([str(a) for a in arguments])
    except SystemExit as leaving:
        code = leaving.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--grup", "hue"], "did you mean --group?"),
        (["train", "--preset", "cpus"], "did you mean 'cpu'?"),
        (["train", "--method", "dut"], "did you mean 'duet'?"),
        (["train", "--bins", "eight"], "bins must be a whole number"),
        (["train", "--group", "rot36"], "did you mean 'rot360'?"),
        (["train", "--data", "no-such-set", "--preset", "cpu"], "no-such-set"),
        (["train", "--config", "no-such-file.yaml"], "cannot read the configuration"),
        (["train", "--resume", "no-such-run"], "not a run"),
        (["train", "--resume", "run", "--lr", "1"], "no other option"),
        (["train", "--preset", "demo", "--channels", "1", "--group", "hue"], "need colour"),
        (["train", "--preset", "demo", "--bins", "7"], "nearest that do"),
        (["train", "--preset", "demo", "--batch-size", "100000"], "batch"),
        (["train", "--preset", "demo", "--encoder", "smal"], "nearest: small"),
        (["train", "--epochs"], "expected one argument"),
        (["train", "--preset", "demo", "--epochs", "inf"], "epochs must be a whole number"),
        (["train", "--preset", "demo", "--sigma", "1e200"], "sigma must be positive, from 1e-6 to 1e6"),
        (["train", "--preset", "demo", "--sigma", "1e-200"], "sigma must be positive, from 1e-6 to 1e6"),
        (["train", "--preset", "demo", "--checkpoint-every", "0"], "starts at 1"),
        (["train", "--preset", "demo", "--strategy", "deepspeed"], "Lightning cannot train so"),
        (["train", "--preset", "demo", "--nodes", "2"], "need --out"),
        (["explore", "digits-rot360", "--port", "99999"], "1 to 65535"),
        (["evaluate", "digits-rot360", "--only", "cost", "--transfer", "no-such-set"], "no-such-set"),
        (["tran"], "invalid choice"),
        ([], "required"),
    ],
)
def test_a_mistake_is_one_line_and_code_two(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    line = [text for text in err.splitlines() if text.startswith("duet")][-1]
    assert message in line
    assert "Traceback" not in err


def test_processes_from_outside_are_as_many_as_asked_for(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    code, _, err = run(capsys, "train", "--preset", "demo", "--out", "run")
    assert code == 2
    assert "2 processes were started, for --devices 1 --nodes 1" in err
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("data: digits\n")
    code, _, err = run(capsys, "train", "--resume", "run")
    assert code == 2
    assert "2 processes were started" in err


def test_the_second_machine_is_not_the_first(monkeypatch):
    for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert rank() == 0
    monkeypatch.setenv("NODE_RANK", "1")
    assert rank() > 0
    monkeypatch.setenv("RANK", "0")
    assert rank() == 0


def test_print_config_is_a_config(capsys, tmp_path):
    code, out, _ = run(
        capsys, "train", "--preset", "paper", "--group", "rot360", "hue", "--lr", "0.5", "--print_config"
    )
    assert code == 0
    assert "lr: 0.5" in out
    path = tmp_path / "c.yaml"
    path.write_text(out)
    assert run(capsys, "train", "--config", path, "--print-config")[1] == out


def test_flags_beat_the_file_and_the_file_beats_the_preset(capsys, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("lr: 0.25\nbins: 4\n")
    _, out, _ = run(capsys, "train", "--preset", "cpu", "--config", path, "--bins", "16", "--print-config")
    assert "lr: 0.25" in out
    assert "bins: 16" in out
    assert "encoder: small" in out


def test_help_answers_at_once_and_shows_every_section():
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "duet.cli", "--help"], capture_output=True, text=True, check=True)
    assert time.monotonic() - start < 5  # importing torch alone would take longer on a busy machine
    assert "train" in done.stdout
    loaded = "import sys, duet.cli as c; c.main(['demo', '--help'])"
    code = f"try:\n {loaded}\nexcept SystemExit: pass\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_train_help_teaches(capsys):
    code, out, _ = run(capsys, "train", "--help")
    assert code == 0
    for word in (
        "--preset",
        "--group",
        "--batch-size",
        "--image-size",
        "--reference",
        "absolute|relative",
        "duet train",
    ):
        assert word in out


def test_a_run_is_trained_named_and_not_overwritten(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["train", "--preset", "demo", "--epochs", "1", "--subset", "64", "--batch-size", "32", "--encoder", "tiny"]
    flags += ["--action-pairs", "100", "--projector", "16", "8"]
    code, out, _ = run(capsys, *flags)
    assert code == 0
    assert "runs/duet-rot360-digits" in out
    assert run(capsys, *flags)[1].count("runs/duet-rot360-digits-2") >= 1
    code, _, err = run(capsys, *flags, "--out", "runs/duet-rot360-digits")
    assert code == 2
    assert "holds a run already" in err
    code, out, _ = run(capsys, "train", "--resume", "runs/duet-rot360-digits")
    assert (code, "is finished" in out) == (0, True)
