#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// One line of a training log: the numbers that Hugging Face's Trainer logs ("loss", "grad_norm", "learning_rate",
/// "epoch", "eval_accuracy"...), and the step they belong to.
struct LogEntry {
  std::int64_t step = 0;
  std::map<std::string, double> values;
};

/// `trainer_state.json`, in the fields of Hugging Face's TrainerState.
struct TrainerState {
  double epoch = 0;  ///< epochs done so far, with a fraction
  std::int64_t global_step = 0;
  std::int64_t max_steps = 0;
  std::int64_t num_train_epochs = 0;
  std::int64_t logging_steps = 500;
  std::int64_t eval_steps = 500;
  std::int64_t save_steps = 500;
  std::int64_t train_batch_size = 0;  ///< batch size of one process: of all its devices together
  std::int64_t num_input_tokens_seen = 0;
  double total_flos = 0;
  std::vector<LogEntry> log_history;
  std::optional<double> best_metric;
  std::optional<std::int64_t> best_global_step;
  std::string best_model_checkpoint;  ///< empty: there is none yet
  bool is_local_process_zero = true;
  bool is_world_process_zero = true;
  /// The state of each callback by the callback's name: a JSON object as text, as in Hugging Face's
  /// "stateful_callbacks".
  std::map<std::string, std::string> stateful_callbacks;
};

/// The file's text: indented by two spaces, keys sorted, with a final line end. JSON cannot hold NaN and infinities, so
/// they are written as the texts "NaN", "Infinity" and "-Infinity".
/// @throws Error  if a callback's state is not JSON
std::string trainer_state_json(const TrainerState& state);

/// Reads a file of this library or of Hugging Face's. Missing fields keep their defaults; unknown fields are ignored.
/// @param path  named in errors
/// @throws Error  if the text is not a JSON object, or a field has another type
TrainerState parse_trainer_state(const std::string& text, const std::string& path);

}  // namespace lockstep
