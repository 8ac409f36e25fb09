"""On a Ray cluster every run comes back, also those that a lost node took."""

import json
import threading
import time

import pytest

from duet.study import expand, read_records
from duet.study.cluster import bring_back, do_on_node, on_cluster, resources
from duet.study.computation import Failure, record_run, run_folder
from duet.study.local import Place, job_of
from duet.study.runner import run_study


def test_a_node_answers_with_bytes_that_are_written_here(tmp_path, tiny):
    [run] = expand({"base": tiny, "effort": "quick"}).runs
    place = Place(tmp_path)
    record = bring_back(do_on_node(job_of(run, place)), run, place)
    assert read_records(tmp_path) == [record]
    assert (run_folder(tmp_path, run) / "model" / "config.json").exists()
    [broken] = expand({"base": {**tiny, "data": str(tmp_path / "nowhere")}}).runs
    failure = bring_back(do_on_node(job_of(broken, place)), broken, place)
    assert isinstance(failure, Failure)
    assert "nowhere" in failure.why
    assert "Traceback" in (tmp_path / "failed" / f"{broken.key}.txt").read_text()


def test_a_run_asks_for_a_gpu_where_there_is_one(tmp_path, tiny):
    [run] = expand({"base": tiny}).runs
    cpus, mixed = [{"CPU": 8.0}, {"CPU": 4.0}], [{"CPU": 8.0, "GPU": 2.0}]
    assert resources(run, Place(tmp_path), cpus) == {"num_cpus": 4.0, "num_gpus": 0}
    assert resources(run, Place(tmp_path, jobs=2), cpus) == {"num_cpus": 2.0, "num_gpus": 0}
    assert resources(run, Place(tmp_path), mixed) == {"num_cpus": 1, "num_gpus": 1}
    assert resources(run, Place(tmp_path, device="cpu"), mixed) == {"num_cpus": 8.0, "num_gpus": 0}


@pytest.mark.slow
def test_a_lost_nodes_runs_are_computed_again(tmp_path, tiny, monkeypatch):
    # A busy machine takes longer than Ray's own patience to start its parts.
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "240")
    monkeypatch.setenv("RAY_agent_register_timeout_ms", "240000")
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    study = expand({"base": tiny, "vary": {"seed": [0, 1, 2, 3]}})
    answers = {
        run.labels["seed"]: json.dumps(record_run(run, {}, {"train": 1.0}, True).to_dict()) for run in study.runs
    }
    begun = tmp_path / "begun"
    begun.mkdir()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        doomed = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        lost = doomed.node_id

        def work(job):
            """Answers once the other node has a run, but on the node that will be lost never."""
            import time
            from pathlib import Path

            import ray

            here, seed = ray.get_runtime_context().get_node_id(), job["labels"]["seed"]
            (Path(begun) / f"{seed}-{'lost' if here == lost else 'kept'}").touch()
            if here == lost:
                time.sleep(600)
            while not list(Path(begun).glob("*-lost")):
                time.sleep(0.05)
            return answers[seed].encode(), b""

        def lose():
            while not list(begun.glob("*-lost")):
                time.sleep(0.05)
            cluster.remove_node(doomed, allow_graceful=False)

        thread = threading.Thread(target=lose, daemon=True)
        thread.start()
        outcome = run_study(study, tmp_path / "out", engine=lambda runs, place: on_cluster(runs, place, work))
        thread.join(60)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert outcome.failed == {}
    assert sorted(outcome.done) == ["seed0", "seed1", "seed2", "seed3"]
    assert len(read_records(tmp_path / "out")) == 4
    [taken] = begun.glob("*-lost")
    assert (begun / taken.name.replace("lost", "kept")).exists()
