#pragma once

#include <cstdint>

namespace lockstep {

/// The stages of a training, of which one follows the other on all ranks alike. A stage changes what the training knows
/// only after its last exchange with other ranks. If a rank is lost in it, the others can therefore do it again.
enum class Stage : std::uint8_t {
  Begin,
  EpochBegin,
  Update,   ///< gradients, and the update of the weights
  Control,  ///< the ranks agree on what callbacks have asked for
  Log,
  Evaluate,
  EvaluateControl,
  Save,
  EpochEnd,
  EpochControl,  ///< then Log, Evaluate, EvaluateControl and Save again
  EpochNext,
  Finish,  ///< all ranks have the whole result of the training
  LoadBest,
  Done
};

/// What decides on the next stage; equal on all ranks.
struct StageView {
  bool stops = false;           ///< the training is to end
  bool stop_was_asked = false;  ///< by a signal: not even the epoch is ended
  bool epoch_is_done = false;   ///< or a callback ends it
  bool epoch_ended = false;     ///< EpochEnd has been
};

/// @param stage  that has just been done
Stage stage_after(Stage stage, const StageView& now);

}  // namespace lockstep
