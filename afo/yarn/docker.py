"""Docker on YARN: the variables of a container's environment by which a NodeManager runs it in an image.

Formats: https://hadoop.apache.org/docs/r3.4.1/hadoop-yarn/hadoop-yarn-site/DockerContainers.html
"""

from afo.job import Docker


def docker_variables(docker: Docker | None) -> dict[str, str]:
    """What the launch context of a container says; empty for one that runs on the node itself."""
    if docker is None:
        return {}
    variables = {"YARN_CONTAINER_RUNTIME_TYPE": "docker", "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": docker.image}
    if docker.mounts:
        variables["YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS"] = ",".join(docker.mounts)
    if docker.network:
        variables["YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK"] = docker.network
    return variables
