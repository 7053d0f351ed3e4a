// `lockstep merge-weights`: writes the weights that ranks saved in parts as one safetensors file.
#include "lockstep/checkpoint/merge_weights.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/base/text/size_text.h"
#include "lockstep/checkpoint/files/checkpoint_files.h"
#include "tools/frame/progress_line.h"
#include "tools/frame/subcommand.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Whether a file of a checkpoint belongs to its model: config.json, the tokenizer's files, "1_Pooling/config.json".
bool is_file_of_model(const std::string& name) {
  if (!is_free_file_name(name)) return false;
  const auto begins = [&](const char* text) { return name.rfind(text, 0) == 0; };
  for (const char* of_training : {"scheduler", "scaler.json", "training_args.json", "data_args.json",
                                  "data_digest.json", "accelerator.json", "optimizer", "custom_checkpoint_"}) {
    if (begins(of_training)) return false;
  }
  return true;
}

// weakly_canonical returns a relative path if the path's first part does not exist.
bool is_inside(const fs::path& inner, const fs::path& outer) {
  const fs::path a = fs::weakly_canonical(fs::absolute(inner));
  const fs::path b = fs::weakly_canonical(fs::absolute(outer));
  return std::mismatch(b.begin(), b.end(), a.begin(), a.end()).first == b.end();
}

// Names a checkpoint of an output folder; empty if it has none.
std::string checkpoints_in(const std::string& folder) {
  std::string found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "manifest.json")) found = std::max(found, entry.path().string());
  }
  return found.empty() ? "" : "a checkpoint in it, such as " + found;
}

class MergeWeights : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("checkpoint_directory", checkpoint_, "folder of a checkpoint, such as out/checkpoint-40")
        ->required();
    app.add_option("output_path", output_, "folder for model.safetensors and the model's configuration")->required();
    app.add_flag("--unsafe_serialization,--unsafe-serialization", pickled_,
                 "accelerate's flag for a pytorch_model.bin; refused, because that file is not written");
    app.add_flag("--remove_checkpoint_dir,--remove-checkpoint-dir", removes_,
                 "remove the checkpoint afterwards, with the optimizer's state");
    show_examples(app, {"lockstep merge-weights out/checkpoint-40 merged",
                        "lockstep merge-weights out/checkpoint-40 merged --remove-checkpoint-dir"});
  }

  int run(const CommandStreams& streams) override {
    check_arguments();
    const Checkpoint checkpoint(checkpoint_, Verify::Checksums);
    const std::size_t models = number_of_models(checkpoint);
    if (models == 0) throw Error(checkpoint_ + " has no weights", checkpoint_, "give a checkpoint that has weights");
    for (std::size_t i = 0; i < models; ++i) merge(checkpoint, i, streams.out);
    copy_files_of_model(checkpoint);
    if (removes_) {
      const fs::path folder = fs::canonical(checkpoint_);  // a link would go, and the checkpoint stay
      fs::remove_all(folder);
      fmt::print(streams.out, "removed {}\n", folder.string());
    }
    return 0;
  }

 private:
  void check_arguments() const {
    if (pickled_) {
      throw UsageError(
          "--unsafe_serialization: a pytorch_model.bin is not written, because it is code that runs when "
          "it is read",
          "command line", "leave it out: every library that reads the one also reads model.safetensors");
    }
    if (!fs::is_directory(checkpoint_)) {
      throw UsageError("there is no folder " + checkpoint_, "checkpoint_directory",
                       "name a checkpoint of a training, such as out/checkpoint-40");
    }
    if (!fs::exists(fs::path(checkpoint_) / "manifest.json")) {
      const std::string inner = checkpoints_in(checkpoint_);
      if (!inner.empty())
        throw UsageError(checkpoint_ + " is not a checkpoint", "checkpoint_directory", "name " + inner);
      if (fs::exists(fs::path(checkpoint_) / "model.safetensors") ||
          fs::exists(fs::path(checkpoint_) / "model.safetensors.index.json")) {
        throw UsageError(checkpoint_ + " is the folder of a model, whose weights are whole", "checkpoint_directory",
                         "there is nothing to merge: give the folder itself to --model");
      }
    }
    if (is_inside(output_, checkpoint_)) {
      throw UsageError(output_ + " is in the checkpoint, whose files are all recorded", "output_path",
                       "give another folder");
    }
  }

  void merge(const Checkpoint& checkpoint, std::size_t index, std::ostream& out) const {
    const ProgressLine line;
    auto shown = std::chrono::steady_clock::now();
    const MergedWeights merged = merge_weights(checkpoint, output_, index, [&](std::uint64_t bytes) {
      const auto now = std::chrono::steady_clock::now();
      if (now - shown < std::chrono::milliseconds(200)) return;
      shown = now;
      line.show(fmt::format("{} written", size_text(bytes)));
    });
    line.show("");
    fmt::print(out, "{}: {} tensors, {}\n", merged.path, merged.tensors, size_text(merged.bytes));
  }

  void copy_files_of_model(const Checkpoint& checkpoint) const {
    for (const auto& item : checkpoint.manifest().files) {
      if (!is_file_of_model(item.first)) continue;
      const fs::path to = fs::path(output_) / item.first;
      create_folders(to.parent_path().string());
      write_file_atomically(to.string(), checkpoint.file(item.first));
    }
  }

  std::string checkpoint_;
  std::string output_;
  bool pickled_ = false;
  bool removes_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_merge_weights() { return std::make_unique<MergeWeights>(); }

}  // namespace lockstep
