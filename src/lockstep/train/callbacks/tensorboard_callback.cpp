#include "lockstep/train/tensorboard_callback.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "lockstep/base/environment.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/seeing/tensorboard_writer.h"

namespace lockstep {

std::string tensorboard_folder(const TrainingArguments& args) {
  if (args.logging_dir) return *args.logging_dir;
  if (const auto folder = env_string("TENSORBOARD_LOGGING_DIR")) return *folder;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32] = {};
  std::strftime(text, sizeof text, "%b%d_%H-%M-%S", &local);
  return args.output_dir + "/runs/" + text + "_" + host_name();
}

TensorBoardCallback::TensorBoardCallback() = default;
TensorBoardCallback::~TensorBoardCallback() = default;

void TensorBoardCallback::on_train_begin(TrainerEvent& event) {
  has_ended_ = false;
  if (!event.state.is_world_process_zero) return;
  writer_ = std::make_unique<TensorBoardWriter>(tensorboard_folder(event.args));
  if (event.state.global_step > 0) writer_->restart_at(event.state.global_step + 1);
  std::string indented = "    ";  // a code block, in Markdown
  for (const char c : to_json(event.args).dump(2, ' ', false, nlohmann::json::error_handler_t::replace))
    indented += c == '\n' ? "\n    " : std::string(1, c);
  writer_->add_text("args", indented, event.state.global_step);
}

void TensorBoardCallback::on_log(TrainerEvent& event) {
  if (event.logs == nullptr) return;
  if (!writer_ && has_ended_ && event.state.is_world_process_zero) {  // the first rank was lost after the training
    writer_ = std::make_unique<TensorBoardWriter>(tensorboard_folder(event.args));
  }
  if (!writer_) return;
  for (const auto& [name, value] : *event.logs) {
    writer_->add_scalar(tensorboard_tag(name), value, event.state.global_step);
  }
}

void TensorBoardCallback::on_train_end(TrainerEvent&) { has_ended_ = true; }

}  // namespace lockstep
