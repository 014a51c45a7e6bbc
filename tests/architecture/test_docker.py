"""The files of ``docker/``, checked without a container engine: none runs where this project is built.

What a look can find is found here (a wrong key, a file that is not there, a port for everybody, a secret in
an image, versions that drift apart); that the containers start is not
proven, and docs/reference/containers.md says so."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from groupshift.settings import load
from groupshift_sandbox.artifacts import BROKER

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
COMPOSE = DOCKER / "compose.yaml"
SECRET = re.compile(r"PASS|SECRET|KEY|TOKEN", re.IGNORECASE)
NO_SECRET = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"}
VARIABLE = re.compile(r"\$\{(\w+)(:[-?][^}]*)?\}")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The compose file with its anchors resolved."""
    return dict(yaml.safe_load(COMPOSE.read_text()))


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Its services."""
    return dict(compose["services"])


def pins() -> dict[str, str]:
    """Every exact version in pyproject.toml, by package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return dict(re.sub(r"\[.*\]", "", each).split("==") for group in groups for each in group if "==" in each)


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments, continued lines joined."""
    text = (DOCKER / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined)]


def strings(value: object) -> Iterator[str]:
    """Every text below a value."""
    if isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str):
        yield value


def test_the_compose_file_follows_the_compose_specification(compose: dict[str, Any]) -> None:
    """No key that the schema does not know, no value of a wrong type."""
    schema = json.loads((ROOT / "tests" / "docker" / "compose-spec.json").read_text())
    jsonschema.validators.validator_for(schema)(schema).validate(compose)
    broken = {**compose, "services": {**compose["services"], "kafka": {"image": "k", "port": ["1:1"]}}}
    with pytest.raises(jsonschema.ValidationError, match="port"):
        jsonschema.validate(broken, schema)


def test_every_service_and_volume_that_is_named_exists(
    services: dict[str, Any], compose: dict[str, Any]
) -> None:
    """And every volume that is declared is used."""
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
    named = {mount.split(":")[0] for service in services.values() for mount in service.get("volumes", [])}
    assert {name for name in named if not name.startswith(".")} == set(compose["volumes"])


def test_every_file_that_is_mounted_or_built_from_exists(services: dict[str, Any]) -> None:
    """Mounted ones are files and read-only; scripts can be run."""
    for service in services.values():
        for mount in service.get("volumes", []):
            source, _, mode = (*mount.split(":"), "")[:3]
            if source.startswith("."):
                path = DOCKER / source
                assert path.is_file(), mount
                assert mode == "ro", mount
                assert path.suffix != ".sh" or os.access(path, os.X_OK)
        if build := service.get("build"):
            context = (DOCKER / build["context"]).resolve()
            assert context == ROOT
            assert (context / build["dockerfile"]).is_file()


def test_services_that_wait_for_health_wait_for_one_that_tells_it(services: dict[str, Any]) -> None:
    """Otherwise compose refuses, or waits for ever."""
    for service in services.values():
        for name, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert services[name]["healthcheck"]["test"], name


def test_ports_are_published_on_the_loopback_address_only(services: dict[str, Any]) -> None:
    """Airflow's login is a demonstration's; who wants more puts a proxy in front."""
    published = {name: port for name, service in services.items() for port in service.get("ports", [])}
    assert set(published) == {"airflow-api-server", "spark-master", "kafka"}
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in published.values()), published


def test_secrets_come_from_the_environment_and_have_no_default(services: dict[str, Any]) -> None:
    """Compose stops with a sentence where one is missing; no password stands in a file of this repository."""
    found = 0
    for service in services.values():
        assert "env_file" not in service
        for key, value in service.get("environment", {}).items():
            if SECRET.search(key) and key not in NO_SECRET:
                assert re.fullmatch(r"\$\{\w+:\?run docker/make-secrets first\}", value), key
                found += 1
    assert found > 5
    settings = (DOCKER / "groupshift.toml").read_text()
    assert not re.search(r"://[^/@\s]+:[^/@\s]+@", settings + COMPOSE.read_text())


def test_make_secrets_writes_every_variable_once_for_its_owner_only(tmp_path: Path) -> None:
    """Random, long enough, and not overwritten while a database knows the old password."""
    script = shutil.copy2(DOCKER / "make-secrets", tmp_path / "make-secrets")
    subprocess.run([script], check=True, capture_output=True)
    made = dict(line.split("=", 1) for line in (tmp_path / ".env").read_text().splitlines())
    asked = VARIABLE.findall(COMPOSE.read_text())
    assert {name for name, how in asked if how.startswith(":?")} == set(made)
    assert all(how.startswith((":?", ":-")) for _, how in asked)
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert len(made["AIRFLOW_JWT_SECRET"]) == 64
    assert len(made["AIRFLOW_FERNET_KEY"]) == 44
    again = subprocess.run([script], check=False, capture_output=True, text=True)
    assert (again.returncode, "there already" in again.stdout) == (1, True)
    ignored = ["git", "check-ignore", "-q", "docker/.env"]
    assert subprocess.run(ignored, cwd=ROOT, check=False).returncode == 0


def test_the_image_copies_what_is_there_and_no_secret_can_get_in() -> None:
    """The build context is a list of what may enter, not of what may not."""
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    sources = {source for each in copied for source in each}
    assert all((ROOT / source).exists() for source in sources), sources
    ignore = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in ignore if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == sources
    assert "docker/.env" in rules
    for word, rest in instructions():
        if word in {"ENV", "ARG"}:
            assert not SECRET.search(rest), rest


def test_the_image_runs_as_a_user_and_starts_what_compose_asks_for(services: dict[str, Any]) -> None:
    """Not as root; every program of compose is one that the image has."""
    words = [word for word, _ in instructions()]
    users = [rest for word, rest in instructions() if word == "USER"]
    assert users == ["50000"]
    assert words.index("USER") > max(number for number, word in enumerate(words) if word in {"RUN", "COPY"})
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = {"airflow", "spark-class", *project["scripts"]}
    commands = [each["command"][0] for each in services.values() if "build" in each]
    assert set(commands) <= known
    assert all(each["entrypoint"] for each in services.values() if each["image"].startswith("apache/kafka"))


def test_versions_are_those_of_the_project(services: dict[str, Any]) -> None:
    """The image installs the lock file that the tests ran with, which holds pyproject's pins."""
    dockerfile = (DOCKER / "Dockerfile").read_text()
    makefile = (ROOT / "Makefile").read_text()
    built = (ROOT / "build.lock").read_text()
    for name, word in (("uv", "UV"), ("hatchling", "BUILDS")):
        assert f"{name}=={re.search(rf'^{word} +:= (.+)$', makefile, re.MULTILINE)[1]} " in built
    assert "--require-hashes -r requirements.lock" in dockerfile
    lock = (ROOT / "requirements.lock").read_text()
    locked = set(re.findall(r"^([a-z0-9.-]+==[^ \\;]+)", lock, re.MULTILINE))
    assert {f"{name}=={version}" for name, version in pins().items()} <= locked
    release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    images = {name: service["image"] for name, service in services.items()}
    assert {image for name, image in images.items() if "build" in services[name]} == {f"groupshift:{release}"}
    assert images["kafka"] == images["zookeeper"] == f"apache/kafka:{BROKER.version}"
    bases = {rest.split()[0] for word, rest in instructions() if word == "FROM"}
    assert bases == {"python:3.11-slim-bookworm"}
    assert all(":" in image and not image.endswith(":latest") for image in images.values())


def test_paths_inside_the_containers_agree(services: dict[str, Any]) -> None:
    """Evidence is one folder for drivers and executors; workers run the image's interpreter."""
    settings = load(DOCKER / "groupshift.toml")
    assert settings.journal.url.startswith("postgresql://groupshift@postgres:5432/")
    assert settings.spark.master.startswith("spark://spark-master:7077")
    for name in ("spark-worker", "airflow-scheduler"):
        assert f"evidence:{settings.evidence.root}" in services[name]["volumes"], name
    assert f"evidence:{settings.evidence.root}:ro" in services["airflow-api-server"]["volumes"]
    environment = " ".join(rest for word, rest in instructions() if word == "ENV")
    assert f"PYSPARK_PYTHON={settings.spark.python}" in environment
    connection = json.loads(services["airflow-scheduler"]["environment"]["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert f"{connection['host']}:{connection['port']}" == settings.spark.master
    dags = re.search(r"DAGS_FOLDER=(\S+)", environment)[1]
    assert dags == "/opt/groupshift/dags"
    assert (ROOT / "dags").is_dir()


def test_airflows_settings_are_ones_that_airflow_knows(services: dict[str, Any]) -> None:
    """A misspelt AIRFLOW__SECTION__KEY is ignored in silence."""
    found = importlib.util.find_spec("airflow")  # importing it takes seconds
    assert found is not None
    assert found.submodule_search_locations
    folder = Path(found.submodule_search_locations[0])
    known = yaml.load((folder / "config_templates" / "config.yml").read_text(), yaml.CSafeLoader)
    told = set(services["airflow-scheduler"]["environment"])
    told |= set(re.findall(r"AIRFLOW__\w+", (DOCKER / "Dockerfile").read_text()))
    simple = {"simple_auth_manager_users", "simple_auth_manager_passwords_file"}
    for name in sorted(each for each in told if each.startswith("AIRFLOW__")):
        _, section, key = name.lower().split("__")
        assert key in simple or key in known[section]["options"], name


def test_kafkas_properties_fit_the_services_and_their_ports(services: dict[str, Any]) -> None:
    """Listeners have addresses that members inside and outside reach; ZooKeeper is where the broker looks."""

    def properties(name: str) -> dict[str, str]:
        lines = (DOCKER / "kafka" / name).read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))

    broker, zookeeper = properties("server.properties"), properties("zookeeper.properties")
    assert broker["zookeeper.connect"] == f"zookeeper:{zookeeper['clientPort']}"
    listeners = dict(each.split("://") for each in broker["listeners"].split(","))
    advertised = dict(each.split("://") for each in broker["advertised.listeners"].split(","))
    assert set(listeners) == set(advertised)
    assert services["kafka"]["ports"] == ["127.0.0.1:29092:29092"]
    assert (advertised["INSIDE"], advertised["HOST"]) == ("kafka:9092", "127.0.0.1:29092")
    mounted = [mount.split(":")[1] for name in ("kafka", "zookeeper") for mount in services[name]["volumes"]]
    for name in ("kafka", "zookeeper"):
        assert services[name]["entrypoint"][1] in mounted
    assert broker["log.dirs"].startswith("/var/lib/kafka/")
    assert zookeeper["dataDir"].startswith("/var/lib/kafka/")


def test_s19_a_stranger_cannot_give_sparks_master_a_job(
    services: dict[str, Any], compose: dict[str, Any]
) -> None:
    """Master, workers and the driver's container share a secret, on a network that nobody else is in."""
    spark = {"spark-master", "spark-worker", "airflow-scheduler"}
    assert {name for name, each in services.items() if "spark" in each.get("networks", ())} == spark
    assert set(compose["networks"]) == {each for service in services.values() for each in service["networks"]}
    for name, service in services.items():
        told = service.get("environment", {})
        assert ("_SPARK_AUTH_SECRET" in told) is (name in spark), name
        if name in spark:
            assert told["_SPARK_AUTH_SECRET"] == "${SPARK_AUTH_SECRET:?run docker/make-secrets first}"
            assert "-Dspark.authenticate=true" in told["SPARK_DAEMON_JAVA_OPTS"]
    properties = load(DOCKER / "groupshift.toml").spark.properties
    assert properties["spark.authenticate"] == properties["spark.network.crypto.enabled"] == "true"
    assert properties["spark.authenticate.secret"] == "in the environment", "no secret stands in the file"


def test_s19_only_who_has_to_writes_evidence(services: dict[str, Any]) -> None:
    """Workers and the scheduler; all others see it read-only or not at all."""
    writers, readers = set(), set()
    for name, service in services.items():
        for mount in service.get("volumes", []):
            source, _, mode = (*mount.split(":"), "")[:3]
            if source == "evidence":
                (readers if mode == "ro" else writers).add(name)
    assert writers == {"spark-worker", "airflow-scheduler"}
    assert "airflow-api-server" in readers
    assert "spark-master" not in readers | writers


def test_s15_whatever_the_image_and_make_install_is_proven_by_its_hash() -> None:
    """With uv and what builds the wheel; no pip install without hashes, no index in the file."""
    runs = " && ".join(rest for word, rest in instructions() if word == "RUN")
    installs = [each for each in re.split(r"&&", runs) if "pip install" in each]
    assert len(installs) == 4
    for each in installs:
        assert "--require-hashes" in each or "--no-deps /tmp/wheels/" in re.sub(r" +", " ", each), each
    built = (ROOT / "build.lock").read_text()
    assert len(re.findall(r"^[a-z]", built, re.MULTILINE)) <= built.count("--hash=sha256:")
    assert "://" not in built
    makefile = (ROOT / "Makefile").read_text()
    assert "pip install -q --require-hashes -r build.lock" in makefile
    assert not re.search(r'pip install -q "', makefile)
