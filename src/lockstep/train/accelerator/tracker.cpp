#include "lockstep/detail/train/tracker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/seeing/metrics_log.h"
#include "lockstep/seeing/tensorboard_writer.h"

namespace lockstep {
namespace {

constexpr const char* kTensorBoard = "tensorboard";
constexpr const char* kJson = "json";

// JSON is valid YAML: strings stay quoted, numbers and switches plain.
std::string yaml_of(const nlohmann::json& config) {
  std::string text;
  for (const auto& [name, value] : config.items()) text += name + ": " + value.dump() + "\n";
  return text;
}

class TensorBoardTracker : public Tracker {
 public:
  explicit TensorBoardTracker(const std::string& folder) : folder_(folder), writer_(folder) {}

  std::string name() const override { return kTensorBoard; }
  void store_init_configuration(const nlohmann::json& config) override {
    std::string table = "| name | value |\n|---|---|\n";
    for (const auto& [name, value] : config.items()) table += "| " + name + " | " + value.dump() + " |\n";
    writer_.add_text("config", table, 0);
    write_file_atomically(folder_ + "/hparams.yml", yaml_of(config));
  }
  void log(const Logs& values, std::int64_t step) override {
    for (const auto& [name, value] : values) writer_.add_scalar(name, value, step);
  }

 private:
  std::string folder_;
  TensorBoardWriter writer_;
};

class JsonTracker : public Tracker {
 public:
  explicit JsonTracker(const std::string& folder) : log_(folder + "/metrics.jsonl") {}

  std::string name() const override { return kJson; }
  void store_init_configuration(const nlohmann::json& config) override {
    log_.write("start", 0, {{"arguments", config}});
  }
  void log(const Logs& values, std::int64_t step) override {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [name, value] : values) object[name] = value;
    log_.write("log", step, object);
    last_step_ = step;
  }
  void finish() override { log_.write("end", last_step_, nlohmann::json::object()); }

 private:
  MetricsLog log_;
  std::int64_t last_step_ = 0;
};

class SilentTracker : public Tracker {
 public:
  std::string name() const override { return ""; }
  void store_init_configuration(const nlohmann::json&) override {}
  void log(const Logs&, std::int64_t) override {}
};

}  // namespace

Tracker& silent_tracker() {
  static SilentTracker tracker;
  return tracker;
}

std::vector<std::string> tracker_names(const std::vector<std::string>& log_with) {
  const std::vector<std::string> known{kTensorBoard, kJson};
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const std::string& name : log_with) {
    if (name == "all") {
      for (const std::string& each : known) add(each);
    } else if (std::find(known.begin(), known.end(), name) != known.end()) {
      add(name);
    } else {
      throw Error(fmt::format("log_with is '{}'", name), "Accelerator",
                  fmt::format("use {} or all", fmt::join(known, ", ")));
    }
  }
  return names;
}

std::unique_ptr<Tracker> make_tracker(const std::string& name, const std::string& folder) {
  create_folders(folder);
  if (name == kTensorBoard) return std::make_unique<TensorBoardTracker>(folder);
  return std::make_unique<JsonTracker>(folder);
}

}  // namespace lockstep
