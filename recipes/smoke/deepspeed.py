"""deepspeed: it takes its fused optimizers' compiled modules, of which each has its function."""

from deepspeed.git_version_info import accelerator_name, installed_ops
from deepspeed.ops.adam import fused_adam_op
from deepspeed.ops.lamb import fused_lamb_op
from deepspeed.ops.lion import fused_lion_op

compiled = {name for name, number in installed_ops.items() if number}
assert (accelerator_name, compiled) == ("cuda", {"fused_adam", "fused_lamb", "fused_lion"})
assert fused_adam_op.multi_tensor_adam
assert fused_lamb_op.lamb
assert fused_lion_op.multi_tensor_lion
