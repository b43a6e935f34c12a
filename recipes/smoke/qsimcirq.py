"""qsimcirq on the CPU: two entangled qubits; its GPU module is the one that it would use."""

import cirq
import numpy
import qsimcirq

assert qsimcirq.qsim_gpu is not None
first, second = cirq.LineQubit.range(2)
circuit = cirq.Circuit(cirq.H(first), cirq.CNOT(first, second))
state = qsimcirq.QSimSimulator().simulate(circuit).final_state_vector
assert numpy.allclose(state, numpy.array([1, 0, 0, 1]) / numpy.sqrt(2)), state
