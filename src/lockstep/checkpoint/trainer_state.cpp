#include "lockstep/checkpoint/trainer_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/json_number.h"

namespace lockstep {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_state(const std::string& path, const std::string& problem) {
  throw Error(path + ": " + problem, path, "resume from another checkpoint");
}

class StateReader {
 public:
  StateReader(const json& object, const std::string& path) : object_(object), path_(path) {}

  void read(const char* key, double& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    const auto number = number_in(*value);
    if (!number) refuse_type(key, *value, "a number");
    out = *number;
  }
  void read(const char* key, std::int64_t& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    if (value->is_number_float() && value->get<double>() < 1) return;  // Hugging Face: steps as a part of all
    if (!value->is_number()) refuse_type(key, *value, "a number");
    out = value->get<std::int64_t>();
  }
  void read(const char* key, bool& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) refuse_type(key, *value, "true or false");
    out = value->get<bool>();
  }
  void read(const char* key, std::string& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_string()) refuse_type(key, *value, "a text");
    out = value->get<std::string>();
  }
  template <typename T>
  void read(const char* key, std::optional<T>& out) const {
    if (find(key) == nullptr) return;
    T value{};
    read(key, value);
    out = value;
  }

  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  [[noreturn]] void refuse_type(const char* key, const json& value, const char* wanted) const {
    refuse_state(path_, fmt::format("\"{}\" is {}, not {}", key, value.type_name(), wanted));
  }

 private:
  const json& object_;
  const std::string& path_;
};

json json_of_entry(const LogEntry& entry) {
  json object = json::object();
  for (const auto& [name, value] : entry.values) object[name] = json_of_number(value);
  object["step"] = entry.step;
  return object;
}

LogEntry entry_of(const json& object, const std::string& path) {
  if (!object.is_object()) refuse_state(path, "an entry of \"log_history\" is no object");
  LogEntry entry;
  StateReader(object, path).read("step", entry.step);
  for (const auto& [name, value] : object.items()) {
    const auto number = number_in(value);  // what is no number is no metric
    if (name != "step" && number) entry.values[name] = *number;
  }
  return entry;
}

}  // namespace

std::string trainer_state_json(const TrainerState& state) {
  json object{{"epoch", json_of_number(state.epoch)},
              {"global_step", state.global_step},
              {"max_steps", state.max_steps},
              {"num_train_epochs", state.num_train_epochs},
              {"logging_steps", state.logging_steps},
              {"eval_steps", state.eval_steps},
              {"save_steps", state.save_steps},
              {"train_batch_size", state.train_batch_size},
              {"num_input_tokens_seen", state.num_input_tokens_seen},
              {"total_flos", json_of_number(state.total_flos)},
              {"is_local_process_zero", state.is_local_process_zero},
              {"is_world_process_zero", state.is_world_process_zero},
              {"is_hyper_param_search", false},
              {"trial_name", nullptr},
              {"trial_params", nullptr}};
  object["log_history"] = json::array();
  for (const LogEntry& entry : state.log_history) object["log_history"].push_back(json_of_entry(entry));
  object["best_metric"] = state.best_metric ? json_of_number(*state.best_metric) : json();
  object["best_global_step"] = state.best_global_step ? json(*state.best_global_step) : json();
  object["best_model_checkpoint"] = state.best_model_checkpoint.empty() ? json() : json(state.best_model_checkpoint);
  object["stateful_callbacks"] = json::object();
  for (const auto& [name, text] : state.stateful_callbacks) {
    json callback = json::parse(text, nullptr, false);
    if (callback.is_discarded()) {
      throw Error(fmt::format("the state of callback {} is not JSON: {}", name, text), "trainer_state_json",
                  "let the callback give a JSON object as text");
    }
    object["stateful_callbacks"][name] = std::move(callback);
  }
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

TrainerState parse_trainer_state(const std::string& text, const std::string& path) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) refuse_state(path, "is not a JSON object");
  const StateReader reader(object, path);
  TrainerState state;
  reader.read("epoch", state.epoch);
  reader.read("global_step", state.global_step);
  reader.read("max_steps", state.max_steps);
  reader.read("num_train_epochs", state.num_train_epochs);
  reader.read("logging_steps", state.logging_steps);
  reader.read("eval_steps", state.eval_steps);
  reader.read("save_steps", state.save_steps);
  reader.read("train_batch_size", state.train_batch_size);
  reader.read("num_input_tokens_seen", state.num_input_tokens_seen);
  reader.read("total_flos", state.total_flos);
  reader.read("best_metric", state.best_metric);
  reader.read("best_global_step", state.best_global_step);
  reader.read("best_model_checkpoint", state.best_model_checkpoint);
  reader.read("is_local_process_zero", state.is_local_process_zero);
  reader.read("is_world_process_zero", state.is_world_process_zero);
  if (const json* log = reader.find("log_history")) {
    if (!log->is_array()) reader.refuse_type("log_history", *log, "a list");
    for (const json& entry : *log) state.log_history.push_back(entry_of(entry, path));
  }
  if (const json* callbacks = reader.find("stateful_callbacks")) {
    if (!callbacks->is_object()) reader.refuse_type("stateful_callbacks", *callbacks, "an object");
    for (const auto& [name, value] : callbacks->items()) state.stateful_callbacks[name] = value.dump();
  }
  return state;
}

}  // namespace lockstep
