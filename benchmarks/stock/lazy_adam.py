"""Adam of the rows that a batch names, as TensorFlow Addons had it: the moments of all others stay as they are."""

import tensorflow as tf


class LazyAdam(tf.compat.v1.train.AdamOptimizer):
    """`tf.compat.v1.train.AdamOptimizer` but for sparse gradients, where that one decays the moments of all rows."""

    def _resource_apply_sparse(self, grad, handle, indices):
        """`indices` are different from each other, for the base class sums those that are not."""
        power_1, power_2 = (tf.cast(each, grad.dtype) for each in self._get_beta_accumulators())
        beta_1, beta_2 = tf.cast(self._beta1_t, grad.dtype), tf.cast(self._beta2_t, grad.dtype)
        mean = self._updated(self.get_slot(handle, "m"), indices, grad, beta_1)
        square = self._updated(self.get_slot(handle, "v"), indices, grad**2, beta_2)
        rate = tf.cast(self._lr_t, grad.dtype) * tf.sqrt(1 - power_2) / (1 - power_1)
        change = rate * mean / (tf.sqrt(square) + tf.cast(self._epsilon_t, grad.dtype))
        return tf.raw_ops.ResourceScatterSub(resource=handle.handle, indices=indices, updates=change)

    def _updated(self, slot, indices, value, keep):
        """The new rows of a moment, once they are written."""
        rows = keep * tf.gather(slot, indices) + (1 - keep) * value
        write = tf.raw_ops.ResourceScatterUpdate(resource=slot.handle, indices=indices, updates=rows)
        with tf.control_dependencies([write] if write is not None else []):
            return tf.identity(rows)
