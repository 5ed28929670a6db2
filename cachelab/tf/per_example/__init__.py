"""Per-example gradients, their squared norms and clipped sums in one vectorised run.

The parts, each with one reason to exist: ``asked`` (what callers hand over, checked), ``copying`` (a part of a graph
again, for other inputs), ``flow`` and its ``layout_rules`` (the proof that examples stay apart), ``batch_numbers``
(what is made from the batch size), ``custom_gradients`` (the proof for gradients of the user's own), ``rules``
(per-example gradients op by op), ``registry`` (where rules are kept), ``analysis`` (where variables meet examples),
``plans`` (which method, and why), ``methods`` and ``copies`` (the work), ``mapping`` and ``turns`` (``pfor``, and what
it gets wrong), ``compiled``, ``traces`` and ``closures`` (the function form), ``subgraph`` (recorded calls as one).
"""

from cachelab.tf.per_example.derivatives import derivatives
from cachelab.tf.per_example.flow import layout_rule
from cachelab.tf.per_example.plans import Plan, VariablePlan
from cachelab.tf.per_example.public import clipped_sum, per_example_gradients, per_example_squared_norms, plan
from cachelab.tf.per_example.rules import Rule, Site, gradient_rule
from cachelab.tf.per_example.subgraph import VectorizedCalls, vectorize_calls

__all__ = [
    "Plan",
    "Rule",
    "Site",
    "VariablePlan",
    "VectorizedCalls",
    "clipped_sum",
    "derivatives",
    "gradient_rule",
    "layout_rule",
    "per_example_gradients",
    "per_example_squared_norms",
    "plan",
    "vectorize_calls",
]
