"""qsimcirq's simulator for GPUs against products with each gate's matrix, in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cirq
import numpy as np
from grid import case_of, cases_of, large_case, usual
from qsimcirq import QSimOptions, QSimSimulator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from perf_case import Case

    Array = NDArray[Any]

PACKAGE = "qsimcirq"
FRAMEWORK = "host"
UNTOUCHED = (
    "measurements, samples and noise, which are random",
    "simulators for the CPU and qsimh, which use no GPU; cuStateVec's, which the wheel hasn't",
    "more than 22 qubits; a second stream: calls wait for their own",
)
ON_GPU = {"use_gpu": True}
LIMIT = 3e-5  # float32, some hundred gates; the simulator for the CPU has 1.1e-5
LARGE: dict[str, Any] = {"qubits": 22, "layers": 4, "fused": 4}

Row = dict[str, Any]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("state", "amplitudes", "expectation"),
    "gates": ("fsim", "single", "cz", "controlled", "matrix"),
    "qubits": (10, 1, 2, 3, 5, 6, 7, 14),
    "layers": (8, 1),
    "fused": (2, 1, 3, 4, 6),
    "initial": ("zero", "basis", "vector"),
    "threads": (512, 32, 1024),
    "blocks": (16, 1, 64),
}
WIDTH = {"single": 1, "fsim": 2, "cz": 2, "matrix": 2, "controlled": 3}  # qubits of a gate


def exists(row: Row) -> bool:
    """Return False where a gate has too few qubits; amplitudes begin with all qubits at zero."""
    is_offered = row["what"] != "amplitudes" or row["initial"] == "zero"
    return is_offered and bool(row["qubits"] >= WIDTH[row["gates"]])


def inputs(row: Row, seed: int) -> tuple[Array, ...]:
    """Return angles of all gates, and the state that the circuit begins with."""
    random = np.random.default_rng(seed)
    count = row["qubits"]
    state = np.zeros(2**count, "complex64")
    state[0 if row["initial"] == "zero" else random.integers(2**count)] = 1
    if row["initial"] == "vector":
        values = random.standard_normal((2, 2**count))
        state = (values[0] + 1j * values[1]).astype("complex64")
        state /= np.linalg.norm(state)
    return random.uniform(-1, 1, (row["layers"], count, 4)), state


def gate(row: Row, angles: Array) -> cirq.Gate:
    """Return the gate that follows those of single qubits."""
    first, second, *_ = angles
    if row["gates"] == "fsim":
        return cirq.FSimGate(np.pi * first, np.pi * second)
    if row["gates"] == "cz":
        return cirq.CZPowGate(exponent=first)
    if row["gates"] == "controlled":
        return cirq.PhasedXPowGate(phase_exponent=first, exponent=second).controlled(2)
    seed = int(1e6 * (1 + first))
    return cirq.MatrixGate(cirq.testing.random_unitary(4, random_state=seed))


def operations(row: Row, angles: Array) -> Iterator[cirq.Operation]:
    """Yield each layer: a turn of each qubit, then gates of neighbours, alternately placed."""
    qubits = cirq.LineQubit.range(row["qubits"])
    width = WIDTH[row["gates"]]
    for number, layer in enumerate(angles):
        for qubit, (axis, turn, phase, _) in zip(qubits, layer, strict=True):
            yield cirq.PhasedXPowGate(phase_exponent=axis, exponent=turn)(qubit)
            yield cirq.ZPowGate(exponent=phase)(qubit)
        if width > 1:
            for place in range(number % width, len(qubits) - width + 1, width):
                yield gate(row, layer[place])(*qubits[place : place + width])


def observables(row: Row) -> list[Any]:
    """Return Z of each qubit; and of the first X, then Y, with the last one's Z."""
    qubits = cirq.LineQubit.range(row["qubits"])
    pairs = [cirq.X, cirq.Y] if len(qubits) > 1 else []
    return [*map(cirq.Z, qubits), *(pauli(qubits[0]) * cirq.Z(qubits[-1]) for pauli in pairs)]


def numbers(row: Row) -> list[int]:
    """Return the states whose amplitudes are computed."""
    return sorted({0, 1, 2 ** row["qubits"] - 1, 2 ** row["qubits"] // 3})


def call(row: Row, angles: Array, state: Array) -> Array:
    """Return the final state, some amplitudes, or expectation values."""
    options = QSimOptions(
        max_fused_gate_size=row["fused"],
        gpu_state_threads=row["threads"],
        gpu_data_blocks=row["blocks"],
        **ON_GPU,
    )
    circuit, simulator = cirq.Circuit(operations(row, angles)), QSimSimulator(options)
    if row["what"] == "amplitudes":
        return np.asarray(simulator.compute_amplitudes(circuit, numbers(row)))
    begin: Any = state if row["initial"] == "vector" else int(state.argmax())
    if row["what"] == "expectation":
        values = simulator.simulate_expectation_values(
            circuit, observables(row), initial_state=begin
        )
        return np.asarray(values)
    return np.asarray(simulator.simulate(circuit, initial_state=begin).final_state_vector)


def applied(operation: Any, state: Array, count: int) -> Array:
    """Return a state of so many qubits after an operation."""
    places = [qubit.x for qubit in operation.qubits]
    matrix = cirq.unitary(operation).reshape((2,) * (2 * len(places)))
    axes = range(len(places), 2 * len(places))
    product = np.tensordot(matrix, state.reshape((2,) * count), (axes, places))
    return np.moveaxis(product, range(len(places)), places).reshape(-1)


def expected(row: Row, angles: Array, state: Array) -> Array:
    """Return what `call` does, from the matrices of the gates."""
    count = row["qubits"]
    final = state.astype("complex128")
    for operation in operations(row, angles):
        final = applied(operation, final, count)
    if row["what"] == "amplitudes":
        return final[numbers(row)]
    if row["what"] == "expectation":
        # A Pauli string is unitary, and so an operation itself.
        ends = (applied(one, final, count) for one in observables(row))
        return np.asarray([np.vdot(final, end) for end in ends])
    return final


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(row, inputs, call, expected, limit=LIMIT, memory=1 << 30)


def timed_case(what: str, gates: str) -> Case:
    """Return a case of many qubits."""
    row = usual(AXES, **LARGE, what=what, gates=gates)
    return large_case(
        f"{what} {gates} {row['qubits']} qubits {row['layers']} layers",
        row,
        *(inputs, call, expected),
        limit=LIMIT,
        memory=1 << 30,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("state", "fsim"),
        timed_case("expectation", "controlled"),
        *cases_of(*GRIDS),
    ]
