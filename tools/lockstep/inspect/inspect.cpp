// `lockstep inspect`: shows the content of a file or folder.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>

#include "lockstep/base/error.h"
#include "lockstep/base/text/affixes.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/files/format_ending.h"
#include "lockstep/data/text_file.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/inspect/inspection.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// The file name without ".gz" or ".zst", whose ending shows the format of the content.
std::string content_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  for (const std::string ending : {".gz", ".zst"}) {
    if (ends_with(name, ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

// IDX files are recognised by their names, or by their first bytes: two zeros, a type, a number of dimensions.
bool is_idx(const std::string& path) {
  const std::string name = content_name(path);
  if (ends_with(name, "-ubyte") || ends_with(name, ".idx")) return true;
  if (fs::path(name).has_extension()) return false;
  const FileBytes file = FileBytes::open(path);
  const std::string_view start = file.view().substr(0, 4);
  return start.size() == 4 && start[0] == 0 && start[1] == 0 && start[2] >= 0x08 && start[2] <= 0x0E && start[3] > 0;
}

class Inspect : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("path", path_,
                   "weights (.safetensors, .safetensors.index.json), a model folder, a checkpoint or a folder of "
                   "checkpoints, config.json, tokenizer.json, a table (.csv, .tsv), .jsonl, .json (SQuAD), .parquet, "
                   ".arrow, .txt, an IDX file, or a folder of these; data may be compressed (.gz, .zst)")
        ->required();
    app.add_flag("--json", json_, "print one JSON object instead of text");
    table_.add(app);
    app.add_flag("--no-quotes", no_quotes_, "the same as --quoting none");
    show_examples(app, {"lockstep inspect model.safetensors", "lockstep inspect bert-base-uncased --json",
                        "lockstep inspect data/reviews.csv", "lockstep inspect --no-header KDDTest+.csv",
                        "lockstep inspect data/mnist/train-labels-idx1-ubyte.gz"});
  }

  int run(const CommandStreams& streams) override {
    if (no_quotes_) table_.quoting = "none";
    table_.form();  // refuses a delimiter of several characters
    if (!fs::exists(path_)) throw Error("there is no such file or folder", path_, "check the path");
    const Inspection found = fs::is_directory(path_) ? inspect_folder() : inspect_file(path_);
    streams.out << (json_ ? found.dump(2, ' ', false, Inspection::error_handler_t::replace) + "\n"
                          : inspection_text(found));
    const bool is_sound = !found.contains("problems") || found["problems"].empty();
    return is_sound ? 0 : 1;
  }

 private:
  std::optional<TableForm> table_form(const std::string& path) const {
    const std::string ending = format_ending(path);
    if (ending != ".csv" && ending != ".tsv" && table_.given().empty()) return {};
    return table_.form();
  }

  std::optional<Inspection> inspect_known(const std::string& path) const {
    const std::string name = content_name(path);
    if (ends_with(name, ".safetensors") || ends_with(name, ".safetensors.index.json")) return inspect_weights(path);
    if (ends_with(name, "tokenizer.json")) return inspect_tokenizer(path);
    if (name == "config.json") return inspect_model_config(path);
    if (const auto format = table_form(path)) return inspect_table(path, *format);
    const std::string ending = format_ending(path);
    if (ending == ".jsonl" || ending == ".ndjson") return inspect_json_lines(path);
    if (ending == ".json") return inspect_json(path);
    if (ending == ".parquet") return inspect_columns("parquet", path, read_parquet_schema(path));
    if (ending == ".arrow") return inspect_columns("arrow", path, read_arrow_schema(path));
    if (ending == ".txt") return inspect_lines(path);
    if (is_idx(path)) return inspect_idx(path);
    return {};
  }

  Inspection inspect_file(const std::string& path) const {
    if (const auto found = inspect_known(path)) return *found;
    throw Error("the name does not show what kind of file this is", path,
                "'lockstep inspect --help' lists the kinds; a table of another name is read with --delimiter");
  }

  bool is_model_folder() const {
    for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
      if (fs::exists(fs::path(path_) / name)) return true;
    }
    return false;
  }

  Inspection inspect_folder() const {
    if (is_saved_dataset(path_)) return inspect_columns("dataset", path_, read_arrow_schema(path_));
    if (is_checkpoint(path_)) return inspect_checkpoint(path_);
    if (is_model_folder()) return inspect_model_folder(path_);
    if (holds_checkpoints(path_)) return inspect_checkpoints(path_);
    for (const char* name : {"tokenizer.json", "vocab.txt", "vocab.json", "encoder.json"}) {
      if (fs::exists(fs::path(path_) / name)) return inspect_tokenizer(path_);
    }
    std::vector<std::string> paths;
    for (const auto& item : fs::directory_iterator(path_)) {
      if (item.is_regular_file() && item.path().extension() != ".md") paths.push_back(item.path().string());
    }
    std::sort(paths.begin(), paths.end());
    Inspection out{{"kind", "folder"}, {"path", path_}, {"files", Inspection::array()}};
    for (const std::string& path : paths) {
      if (auto found = inspect_known(path)) out["files"].push_back(std::move(*found));
    }
    if (out["files"].empty()) {
      throw Error("the folder contains no model, tokenizer or dataset of a known kind", path_,
                  "'lockstep inspect --help' lists the kinds");
    }
    return out;
  }

  std::string path_;
  bool json_ = false;
  TableFlags table_;
  bool no_quotes_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_inspect() { return std::make_unique<Inspect>(); }

}  // namespace lockstep
