#include "lockstep/detail/checkpoint/trainer_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/checkpoint/files/json_number.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse_state(const std::string& path, const std::string& problem) {
  throw Error(path + ": " + problem, path, "resume from another checkpoint");
}

class StateReader {
 public:
  StateReader(const Json& object, const std::string& path) : object_(object), path_(path) {}

  void read(const char* key, double& out) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    const auto number = number_in(*value);
    if (!number) refuse_type(key, *value, "a number");
    out = *number;
  }
  void read(const char* key, std::int64_t& out) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    const double share = value->is_number_float() ? value->get<double>() : 0;
    if (share > 0 && share < 1) return;  // Hugging Face: of all steps
    const auto number = whole_number_in<std::int64_t>(*value);
    if (!number)
      refuse_state(path_, fmt::format("\"{}\" is {}, not a whole number", key, value->dump().substr(0, 100)));
    out = *number;
  }
  void read(const char* key, bool& out) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) refuse_type(key, *value, "true or false");
    out = value->get<bool>();
  }
  void read(const char* key, std::string& out) const {
    const Json* value = find(key);
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

  const Json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  [[noreturn]] void refuse_type(const char* key, const Json& value, const char* wanted) const {
    refuse_state(path_, fmt::format("\"{}\" is {}, not {}", key, value.type_name(), wanted));
  }

 private:
  const Json& object_;
  const std::string& path_;
};

Json json_of_entry(const LogEntry& entry) {
  Json object = Json::object();
  for (const auto& [name, value] : entry.values) object[name] = json_of_number(value);
  object["step"] = entry.step;
  return object;
}

LogEntry entry_of(const Json& object, const std::string& path) {
  if (!object.is_object()) refuse_state(path, "an entry of \"log_history\" is not an object");
  LogEntry entry;
  StateReader(object, path).read("step", entry.step);
  for (const auto& [name, value] : object.items()) {
    const auto number = number_in(value);  // a value that is not a number is not a metric
    if (name != "step" && number) entry.values[name] = *number;
  }
  return entry;
}

}  // namespace

std::string trainer_state_json(const TrainerState& state) {
  Json object{{"epoch", json_of_number(state.epoch)},
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
  object["log_history"] = Json::array();
  for (const LogEntry& entry : state.log_history) object["log_history"].push_back(json_of_entry(entry));
  object["best_metric"] = state.best_metric ? json_of_number(*state.best_metric) : Json();
  object["best_global_step"] = state.best_global_step ? Json(*state.best_global_step) : Json();
  object["best_model_checkpoint"] = state.best_model_checkpoint.empty() ? Json() : Json(state.best_model_checkpoint);
  object["stateful_callbacks"] = Json::object();
  for (const auto& [name, text] : state.stateful_callbacks) {
    Json callback = Json::parse(text, nullptr, false);
    if (callback.is_discarded()) {
      throw Error(fmt::format("the state of callback {} is not JSON: {}", name, text), "trainer_state_json",
                  "let the callback give a JSON object as text");
    }
    object["stateful_callbacks"][name] = std::move(callback);
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

TrainerState parse_trainer_state(const std::string& text, const std::string& path) {
  const auto object = parse_json_object(text, path);
  const StateReader reader(*object, path);
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
  if (state.global_step < 0) refuse_state(path, fmt::format("\"global_step\" is {}", state.global_step));
  if (const Json* log = reader.find("log_history")) {
    if (!log->is_array()) reader.refuse_type("log_history", *log, "a list");
    for (const Json& entry : *log) state.log_history.push_back(entry_of(entry, path));
  }
  if (const Json* callbacks = reader.find("stateful_callbacks")) {
    if (!callbacks->is_object()) reader.refuse_type("stateful_callbacks", *callbacks, "an object");
    for (const auto& [name, value] : callbacks->items()) state.stateful_callbacks[name] = value.dump();
  }
  return state;
}

}  // namespace lockstep
