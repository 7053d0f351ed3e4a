// `lockstep model`: fetches pretrained models from the Hugging Face Hub, and converts PyTorch's files.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/text/size_text.h"
#include "lockstep/hub/model_download.h"
#include "lockstep/models/pickled/pickled_weights.h"
#include "lockstep/models/registry.h"
#include "tools/frame/progress_line.h"
#include "tools/frame/subcommand.h"

namespace lockstep {
namespace {

std::string size_of(std::int64_t bytes) { return size_text(static_cast<std::uint64_t>(bytes)); }

// "model.safetensors: 120.0 MB of 435.8 MB, 28 %, 11.2 MB/s", a few times a second.
class TransferLine {
 public:
  void show(const HubFile& file, std::int64_t bytes) {
    constexpr std::chrono::milliseconds kBetween{200};
    const auto now = Clock::now();
    if (file.name != name_) {
      name_ = file.name;
      begin_ = now;
      begin_bytes_ = bytes;
    }
    if (now - shown_ < kBetween) return;
    shown_ = now;
    const double seconds = std::max(1e-3, std::chrono::duration<double>(now - begin_).count());
    const double rate = static_cast<double>(bytes - begin_bytes_) / seconds;
    line_.show(fmt::format("{}: {} of {}, {} %, {}/s", file.name, size_of(bytes), size_of(file.bytes),
                           100 * bytes / std::max<std::int64_t>(1, file.bytes),
                           size_of(static_cast<std::int64_t>(rate))));
  }
  void clear() const { line_.show(""); }

 private:
  using Clock = std::chrono::steady_clock;

  ProgressLine line_;
  std::string name_;
  Clock::time_point begin_;
  Clock::time_point shown_;
  std::int64_t begin_bytes_ = 0;
};

class ModelFiles : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.require_subcommand(1);
    add_get(app);
    add_convert(app);
    show_examples(app, {"lockstep model get bert-base-cased", "lockstep model convert bert-base-cased"});
  }

  int run(const CommandStreams& streams) override {
    return convert_->parsed() ? run_convert(streams.out) : run_get(streams.out);
  }

 private:
  void add_get(CLI::App& app) {
    CLI::App& get = *app.add_subcommand("get", "download a model from the Hugging Face Hub and check it");
    get.add_option("model", download_.id, "the model's name on the Hub: NAME or OWNER/NAME")->required();
    get.add_option("--output,--local-dir", download_.folder, "folder for the files (default: the model's name)");
    get.add_option("--revision", download_.revision, "branch, tag or commit")->capture_default_str();
    get.add_flag("--force", download_.replaces_files, "replace files that exist and differ");
    show_examples(get, {"lockstep model get bert-base-cased",
                        "lockstep model get distilbert-base-uncased --output /models/distilbert",
                        "HF_TOKEN=hf_... lockstep model get OWNER/PRIVATE --revision v2"});
  }

  void add_convert(CLI::App& app) {
    convert_ = app.add_subcommand("convert", "write model.safetensors from a folder's pytorch_model.bin");
    convert_->add_option("folder", folder_, "folder of a model")->required();
    show_examples(*convert_, {"lockstep model convert bert-base-cased"});
  }

  int run_convert(std::ostream& out) const {
    const std::int64_t tensors = convert_pickled_weights(folder_);
    fmt::print(out, "{} tensors of {}/pytorch_model.bin are in model.safetensors beside it\n", tensors, folder_);
    return 0;
  }

  int run_get(std::ostream& out) {
    if (download_.folder.empty()) download_.folder = download_.id;
    TransferLine line;
    download_.accept = require_known_model;
    download_.progress = [&](const HubFile& file, std::int64_t bytes) { line.show(file, bytes); };
    download_.report = [&](const std::string& text) {
      line.clear();
      fmt::print(out, "{}\n", text);
    };
    const DownloadedModel done = download_model(download_, HubSettings::from_environment());
    fmt::print(out, "{} at commit {}: {} files, {}, in {}\n", download_.id, done.commit, done.files,
               size_of(done.bytes), download_.folder);
    if (!done.is_pickled) return 0;
    folder_ = download_.folder;
    return run_convert(out);
  }

  CLI::App* convert_ = nullptr;
  std::string folder_;
  ModelDownload download_;
};

}  // namespace

std::unique_ptr<Subcommand> make_model() { return std::make_unique<ModelFiles>(); }

}  // namespace lockstep
