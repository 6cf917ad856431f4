"""A small and strict Kubernetes API server, for tests of its clients.

It does what the real one does for the kinds that the driver uses: unknown fields are refused, objects have uid,
resourceVersion and generation, server-side apply keeps who owns which field, deletion waits for finalizers. Beside it
run what makes pods and volumes out of StatefulSets, what takes away whose owner is gone, and a stand-in for the node,
the volumes and the load balancer of a cluster. Each of them takes one step with each request, so that nothing has to
be waited for and everything takes a while.

`tests/integration/instances/test_kube_api.py` holds it to the real one wherever that is at hand.
"""
