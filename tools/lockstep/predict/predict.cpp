// `lockstep predict`: applies a saved model to texts, images or rows.
#include <fmt/format.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/flags/model_folder.h"
#include "tools/lockstep/predict/prediction.h"

namespace lockstep {
namespace {

class Predict : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--model", flags_.model, "folder of a model, as lockstep train saves it")->required();
    app.add_option("--task", flags_.task, "what the model was trained for; default: from its config.json")
        ->check(CLI::IsMember({"text-classification", "sentence-embedding", "language-modeling", "image-classification",
                               "tabular-classification"}));
    app.add_option("--tokenizer", flags_.tokenizer, "folder of its tokenizer; default: the model's");
    app.add_option(
        "--file", flags_.file,
        "texts, one per line (default: standard input), or a table of texts (.csv, .tsv, .jsonl, .parquet, .arrow); "
        "an IDX file of images or a folder of them; a table");
    app.add_option("--text-column", flags_.text_columns,
                   "text column of a table of texts, or two for pairs; default: found by name, such as text");
    flags_.table.add(app);
    app.add_option("--batch-size", flags_.batch_size, "samples in a batch")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--max-length", flags_.max_length,
                   "tokens of a text at most; the rest is cut off. Default: as in the training that saved the model")
        ->check(CLI::PositiveNumber);
    app.add_option("--max-new-tokens", flags_.max_new_tokens,
                   "GPT-2: tokens to add at most; default: as in generation_config.json, else 20")
        ->check(CLI::PositiveNumber);
    app.add_option("--temperature", flags_.temperature,
                   "GPT-2: temperature of sampling; 0 always takes the likeliest token. Default: as in "
                   "generation_config.json, else 0")
        ->check(CLI::NonNegativeNumber);
    app.add_option(
           "--top-k", flags_.top_k,
           "GPT-2: sample from this many likeliest tokens; 0: from all. Default: as in generation_config.json, else 50")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--seed", flags_.seed, "GPT-2: seed of sampling")->capture_default_str();
    app.add_flag("--json", flags_.json, "print one JSON object per line, with all scores");
    app.add_option("--output-file", flags_.output_file,
                   "write the answers to this file, .csv, .tsv or .jsonl, with all scores; default: standard output");
    show_examples(
        app,
        {"echo 'The food was cold.' | lockstep predict --model reviews",
         "lockstep predict --model reviews --file lines.txt --json",
         "lockstep predict --model reviews --file reviews.csv --text-column review --output-file out.csv",
         "lockstep predict --model sentence-transformers/all-MiniLM-L6-v2 --file lines.txt --output-file vectors.jsonl",
         "echo 'The train' | lockstep predict --model gpt2-folder --max-new-tokens 30 --temperature 0.8",
         "echo 'The food was [MASK].' | lockstep predict --model bert-folder",
         "lockstep predict --model digits --file t10k-images-idx3-ubyte",
         "lockstep predict --model kdd --file KDDTest+.txt"});
  }

  int run(const CommandStreams& streams) override {
    const torch::NoGradGuard no_grad;
    const std::string task = flags_.task.empty() ? task_of_folder(flags_.model) : flags_.task;
    const bool is_of_texts =
        task == "text-classification" || task == "sentence-embedding" || task == "language-modeling";
    if (!flags_.text_columns.empty() && !is_of_texts) {
      throw UsageError("--text-column cannot be used with a model for " + task, "command line", "leave the flag out");
    }
    const bool reads_tables = is_of_texts || task == "tabular-classification";
    if (!flags_.table.given().empty() && (!reads_tables || flags_.file.empty())) {
      throw UsageError(flags_.table.given() + " cannot be used without a table", "command line",
                       reads_tables ? "name the table: --file" : "leave the flag out");
    }
    if (task == "text-classification") predict_labels_of_texts(flags_, streams);
    if (task == "sentence-embedding") predict_vectors_of_texts(flags_, streams);
    if (task == "language-modeling") predict_language(flags_, streams);
    if (task == "image-classification") predict_labels_of_images(flags_, streams);
    if (task == "tabular-classification") predict_labels_of_rows(flags_, streams);
    return 0;
  }

 private:
  PredictFlags flags_;
};

}  // namespace

std::unique_ptr<Subcommand> make_predict() { return std::make_unique<Predict>(); }

}  // namespace lockstep
