// `lockstep config`: asks Accelerate's questions, and writes the answers to a file.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <filesystem>
#include <ostream>

#include "lockstep/base/error.h"
#include "lockstep/base/files/accelerate_config_path.h"
#include "lockstep/base/text/precision_name.h"
#include "tools/accelerate/accelerate_config.h"
#include "tools/accelerate/config_questions.h"
#include "tools/frame/subcommand.h"

namespace lockstep {
namespace {

class Config : public Subcommand {
 public:
  void add(CLI::App& app) override {
    add_file(app);
    default_ = app.add_subcommand("default", "write a configuration without asking");
    add_file(*default_);
    default_->add_option("--mixed-precision", mixed_precision_, "precision of the training: no, fp16 or bf16")
        ->transform(precision_name)
        ->check(CLI::IsMember({"no", "fp16", "bf16"}))
        ->capture_default_str();
    update_ = app.add_subcommand("update", "add the keys that a file of an older version lacks");
    add_file(*update_);
    app.require_subcommand(0, 1);
    show_examples(app, {"lockstep config", "lockstep config --config-file two-machines.yaml",
                        "lockstep config default --mixed-precision bf16", "lockstep config update",
                        "lockstep launch --show-config ./train"});
  }

  int run(const CommandStreams& streams) override {
    if (file_.empty()) file_ = accelerate_config_path();
    if (file_.empty()) {
      throw Error("there is no home folder for a default configuration: HF_HOME and HOME are unset", "environment",
                  "name the file with --config-file");
    }
    if (default_->parsed()) return write_default(streams.out);
    if (update_->parsed()) {
      write_accelerate_config(read_accelerate_config(file_), file_);
      fmt::print(streams.out, "Successfully updated the configuration file at {}.\n", file_);
      return 0;
    }
    write_accelerate_config(ask_config(streams.in, streams.out), file_);
    fmt::print(streams.out, "accelerate configuration saved at {}\n", file_);
    return 0;
  }

 private:
  void add_file(CLI::App& app) {
    app.add_option("--config-file", file_,
                   "file to write: YAML, or JSON if its name ends in .json; default: accelerate's, "
                   "accelerate/default_config.yaml in $HF_HOME or ~/.cache/huggingface");
  }

  int write_default(std::ostream& out) const {
    if (std::filesystem::exists(file_)) {
      throw Error("a configuration already exists, and this command does not replace it", file_,
                  "change it with `lockstep config`, or remove it first");
    }
    AccelerateConfig config;
    config.mixed_precision = mixed_precision_;
    write_accelerate_config(config, file_);
    fmt::print(out, "accelerate configuration saved at {}\n", file_);
    return 0;
  }

  std::string file_;
  std::string mixed_precision_ = "no";
  CLI::App* default_ = nullptr;
  CLI::App* update_ = nullptr;
};

}  // namespace

std::unique_ptr<Subcommand> make_config() { return std::make_unique<Config>(); }

}  // namespace lockstep
