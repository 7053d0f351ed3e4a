// `lockstep bench trainer`: one fine-tuning, from the command to the saved model, by `lockstep train` and by Hugging
// Face's Trainer under torchrun; and the cost of Trainer compared with a bare loop.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "bench/measure/bench_folder.h"
#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "bench/measure/worker_program.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/base/text/precision_name.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text_file.h"
#include "lockstep/models/registry.h"
#include "tools/frame/companion.h"
#include "tools/frame/progress_line.h"
#include "tools/frame/scratch_folder.h"
#include "tools/frame/shell.h"

namespace lockstep {
namespace {

/// Measurements of one system, one number for each round.
struct FineTuning {
  std::string system;
  std::vector<double> wall_s;        // from the command to its end, including saving the model
  std::vector<double> first_step_s;  // from the command to the log line of the first update
  std::vector<double> steps_per_s;   // as the system reports it
  std::vector<double> accuracy;      // of the saved model on the test file, if there is one
  std::vector<double> loss;          // the same
};

// The number after `name` in a log line; 0 if it is missing. Hugging Face's version 5 writes numbers as strings.
double logged_number(const std::string& line, const std::string& name) {
  const std::size_t at = line.find("'" + name + "': ");
  if (at == std::string::npos) return 0;
  std::size_t begin = at + name.size() + 4;
  if (line[begin] == '\'') ++begin;
  return std::stod(line.substr(begin));
}

class BenchTrainer : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--model", model_, "bert-tiny, bert-mini, bert-small, bert-base, or the folder of a classifier")
        ->capture_default_str();
    app.add_option("--tokenizer", tokenizer_, "folder of its tokenizer")->capture_default_str();
    app.add_option("--train-file", train_file_, "CSV file with training data")->capture_default_str();
    app.add_option("--text-column", text_column_, "column of the text")->capture_default_str();
    app.add_option("--label-column", label_column_, "column of the label")->capture_default_str();
    app.add_option("--max-length", max_length_, "tokens of a text at most")->capture_default_str();
    app.add_option("--batch", batch_, "texts of each rank in an update")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--steps", steps_, "updates")->capture_default_str()->check(CLI::Range(2, 1000000));
    app.add_option("--learning-rate", learning_rate_, "of AdamW")->capture_default_str();
    app.add_option("--ranks,--nproc-per-node", ranks_, "ranks")->capture_default_str()->check(CLI::Range(1, 64));
    app.add_option("--threads", threads_, "of each rank; default: cores / ranks")->check(CLI::PositiveNumber);
    app.add_option("--rounds", rounds_, "turns that each gets")->capture_default_str()->check(CLI::Range(1, 99));
    app.add_option("--seed", seed_, "of the first round; each further round takes the next number")
        ->capture_default_str();
    app.add_option("--dtype", dtype_, "fp32, or bf16 with forward and backward under autocast, on both sides")
        ->capture_default_str()
        ->transform(precision_name)
        ->check(CLI::IsMember({"fp32", "bf16"}));
    app.add_option("--test-file", test_file_,
                   "CSV file that judges every saved model, by `lockstep evaluate`; default: none")
        ->check(CLI::ExistingFile);
    app.add_option("--peer", peers_,
                   "huggingface: Hugging Face's Trainer under torchrun, with as many threads as ours; "
                   "huggingface-default: with those that torchrun gives it; default: none")
        ->delimiter(',')
        ->check(CLI::IsMember({"huggingface", "huggingface-default"}));
    app.add_option("--python", python_, "interpreter that has torch, transformers and accelerate")
        ->capture_default_str();
    app.add_flag("--overhead", overhead_,
                 "measure instead the time of an update by Trainer and by a bare loop around DistributedDataParallel");
    app.add_flag("--json", json_, "print JSON");
    show_examples(app, {"lockstep bench trainer", "lockstep bench trainer --peer huggingface --python venv/bin/python",
                        "lockstep bench trainer --rounds 3 --test-file data/reviews-test.csv",
                        "lockstep bench trainer --overhead --steps 100"});
  }

  int run() override {
    if (threads_ == 0) threads_ = std::max(1, available_cores() / ranks_);
    if (!peers_.empty()) check_peer();
    const ScratchFolder scratch("lockstep-bench-trainer");
    write_start(scratch / "start");
    if (overhead_) return report_overhead(scratch);
    std::vector<FineTuning> systems{{"lockstep", {}, {}, {}, {}, {}}};
    for (const std::string& peer : peers_) systems.push_back({peer, {}, {}, {}, {}, {}});
    const ProgressLine progress;
    for (int round = 0; round < rounds_; ++round) {
      for (FineTuning& system : systems) {
        progress.show(fmt::format("round {} of {}: {}", round + 1, rounds_, system.system));
        take_turn(system, seed_ + round, scratch);
      }
    }
    report(systems);
    return 0;
  }

 private:
  void check_peer() const {
    const std::string command = shell_quoted(python_) + " -c 'import torch, accelerate, transformers' 2>/dev/null";
    if (run_shell(command).first == 0) return;
    throw Error(python_ + " does not have all of torch, transformers and accelerate", "--peer huggingface",
                "make a virtual environment over a Python that has torch (python3 -m venv --system-site-packages venv; "
                "venv/bin/pip install transformers==4.44.2 accelerate==0.29.3 fit torch 1.13), and name its "
                "interpreter by --python");
  }

  // Writes the common initial weights into a folder that both systems read.
  void write_start(const std::string& folder) const {
    TextFileOptions columns;
    columns.texts = {text_column_};
    columns.label = label_column_;
    const auto rows = open_text_file(train_file_, columns);
    LoadOptions options;
    options.labels.resize(rows->labels().size());
    for (const auto& [name, number] : rows->labels()) options.labels.at(static_cast<std::size_t>(number)) = name;
    const Tokenizer tokenizer = load_tokenizer(tokenizer_);
    options.tokenizer_size = tokenizer.vocab_size();
    torch::manual_seed(42);
    const auto loaded = load_or_make_model(model_, TextTask::SequenceClassification, options, tokenizer.pad_id());
    std::filesystem::create_directories(folder);
    save_model(*loaded.model, folder);
    tokenizer.save(folder);
  }

  // The arguments that `lockstep train` and the peer's script share.
  std::string shared_flags(const std::string& start, const std::string& output, std::int64_t seed) const {
    return fmt::format(
        " --model {} --train_file {} --text_column {} --label_column {} --output_dir {} --max_length {} "
        "--per_device_train_batch_size {} --max_steps {} --learning_rate {} --seed {} --bf16 {}",
        shell_quoted(start), shell_quoted(train_file_), shell_quoted(text_column_), shell_quoted(label_column_),
        shell_quoted(output), max_length_, batch_, steps_, learning_rate_, seed, dtype_ == "bf16");
  }

  std::string command(const std::string& system, std::int64_t seed, const ScratchFolder& scratch) const {
    const std::string flags = shared_flags(scratch / "start", scratch / system, seed);
    if (system == "lockstep") {
      return run_command(ranks_, threads_) + shell_quoted(companion_program("lockstep")) +
             " train --task text-classification" + flags +
             " --save_strategy no --logging_first_step --logging_steps 1000000 --disable_tqdm true";
    }
    std::string variables = system == "huggingface" ? "" : as_the_user_started();
    variables += "PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 ";
    if (system == "huggingface") {
      variables += fmt::format("OMP_NUM_THREADS={0} OPENBLAS_NUM_THREADS={0} MKL_NUM_THREADS={0} ", threads_);
    }
    // Debian's torchrun fails under Python 3.11 without redirection.
    return variables + shell_quoted(python_) +
           fmt::format(" -m torch.distributed.run --standalone --redirects 2 --tee 2 --nproc_per_node {} ", ranks_) +
           shell_quoted(bench_folder() + "/peers/huggingface_trainer.py") + flags;
  }

  void take_turn(FineTuning& system, std::int64_t seed, const ScratchFolder& scratch) const {
    const std::string line = command(system.system, seed, scratch);
    const std::string log = scratch / (system.system + ".log");
    std::filesystem::remove_all(scratch / system.system);
    double first_step_s = 0;
    double steps_per_s = 0;
    const auto start = std::chrono::steady_clock::now();
    FILE* pipe = ::popen((line + " 2>" + shell_quoted(log)).c_str(), "r");
    if (pipe == nullptr) throw Error("cannot start a shell", line, "check the limits on processes");
    char text[4096];
    while (std::fgets(text, sizeof(text), pipe) != nullptr) {
      if (first_step_s == 0 && logged_number(text, "loss") > 0) first_step_s = seconds_since(start);
      steps_per_s = std::max(steps_per_s, logged_number(text, "train_steps_per_second"));
    }
    const int status = ::pclose(pipe);
    const double wall_s = seconds_since(start);
    if (status != 0 || first_step_s == 0 || steps_per_s == 0 ||
        !std::filesystem::exists((scratch / system.system) + "/model.safetensors")) {
      throw Error(system.system + " did not fine-tune; it wrote:\n" + read_file(log), line, "run this command by hand");
    }
    system.wall_s.push_back(wall_s);
    system.first_step_s.push_back(first_step_s);
    system.steps_per_s.push_back(steps_per_s);
    if (!test_file_.empty()) judge(system, scratch);
  }

  // One judge for all: `lockstep evaluate` in one process, in fp32.
  void judge(FineTuning& system, const ScratchFolder& scratch) const {
    const std::string line = fmt::format(
        "{} evaluate --task text-classification --model {} --test-file {} --text-column {} --label-column {} "
        "--max-length {} --metrics accuracy --parallel-mode single --output-dir {} --save --disable-tqdm true",
        shell_quoted(companion_program("lockstep")), shell_quoted(scratch / system.system), shell_quoted(test_file_),
        shell_quoted(text_column_), shell_quoted(label_column_), max_length_, shell_quoted(scratch / "judge"));
    const auto [status, output] = run_shell(line + " 2>&1");
    if (status != 0) throw Error("lockstep evaluate failed; it wrote:\n" + output, line, "run this command by hand");
    const auto results = nlohmann::json::parse(read_file((scratch / "judge") + "/eval_results.json"));
    system.accuracy.push_back(results.at("eval_accuracy").get<double>());
    system.loss.push_back(results.at("eval_loss").get<double>());
  }

  void report(const std::vector<FineTuning>& systems) const {
    if (json_) {
      nlohmann::ordered_json rows = nlohmann::ordered_json::array();
      for (const FineTuning& each : systems) {
        rows.push_back({{"system", each.system},
                        {"model", model_},
                        {"ranks", ranks_},
                        {"batch", batch_},
                        {"steps", steps_},
                        {"wall_s", median(each.wall_s)},
                        {"first_step_s", median(each.first_step_s)},
                        {"steps_per_s", median(each.steps_per_s)},
                        {"rounds_wall_s", each.wall_s},
                        {"first_seed", seed_},
                        {"dtype", dtype_},
                        {"rounds_accuracy", each.accuracy},
                        {"rounds_loss", each.loss}});
      }
      fmt::print("{}\n", rows.dump(2));
      return;
    }
    fmt::print("{} in {}, {} updates of {} texts by each of {} rank(s), {} thread(s) each, at most {} tokens\n", model_,
               dtype_, steps_, batch_, ranks_, threads_, max_length_);
    fmt::print("medians of {} rounds in turn; {} cores, load {:.2f}\n\n", rounds_, available_cores(), load_average());
    fmt::print("{:<20} {:>16} {:>16} {:>10}\n", "", "to saved model s", "to first step s", "updates/s");
    for (const FineTuning& each : systems) {
      fmt::print("{:<20} {:>16.2f} {:>16.2f} {:>10.2f}\n", each.system, median(each.wall_s), median(each.first_step_s),
                 median(each.steps_per_s));
    }
    if (!test_file_.empty()) report_test(systems);
    for (std::size_t i = 1; i < systems.size(); ++i) {
      std::vector<double> ratios;
      for (std::size_t r = 0; r < systems[i].wall_s.size(); ++r) {
        ratios.push_back(systems[0].wall_s[r] / systems[i].wall_s[r]);
      }
      fmt::print("\n{:.2f} of the wall time of {} (median over rounds; {:.2f} to {:.2f})\n", median(ratios),
                 systems[i].system, *std::min_element(ratios.begin(), ratios.end()),
                 *std::max_element(ratios.begin(), ratios.end()));
    }
  }

  void report_test(const std::vector<FineTuning>& systems) const {
    fmt::print("\non {}, one column for each seed from {}\n", test_file_, seed_);
    for (const FineTuning& each : systems) {
      fmt::print("{:<20} accuracy {:.4f}   loss {:.4f}\n", each.system, fmt::join(each.accuracy, " "),
                 fmt::join(each.loss, " "));
    }
  }

  int report_overhead(const ScratchFolder& scratch) const {
    const std::string line =
        run_command(ranks_, threads_) + shell_quoted(companion_program("lockstep-trainer-worker")) +
        fmt::format(
            " --model {} --train-file {} --text-column {} --label-column {} --output-dir {} --max-length {} "
            "--batch {} --steps {} --learning-rate {} --rounds {}",
            shell_quoted(scratch / "start"), shell_quoted(train_file_), shell_quoted(text_column_),
            shell_quoted(label_column_), shell_quoted(scratch / "overhead"), max_length_, batch_, steps_,
            learning_rate_, rounds_);
    nlohmann::ordered_json result = results_of(line, "lockstep-trainer-worker", 1).front();
    const double trainer_ms = result["trainer_ms"];
    const double loop_ms = result["loop_ms"];
    result["overhead_percent"] = 100 * (trainer_ms / loop_ms - 1);
    if (json_) {
      fmt::print("{}\n", result.dump(2));
      return 0;
    }
    fmt::print("{}, {} updates of {} texts by each of {} rank(s), {} thread(s) each; {} cores, load {:.2f}\n", model_,
               steps_, batch_, ranks_, threads_, available_cores(), load_average());
    fmt::print("milliseconds of an update; each update's quickest of {} rounds in turn, and the mean over updates\n\n",
               rounds_);
    fmt::print("{:<20} {:>8.3f}\n{:<20} {:>8.3f}\n\nTrainer takes {:+.2f} %\n", "bare loop", loop_ms, "Trainer",
               trainer_ms, result["overhead_percent"].get<double>());
    return 0;
  }

  std::string model_ = "bert-tiny";
  std::string tokenizer_ = "data/reviews-vocab";
  std::string train_file_ = "data/reviews.csv";
  std::string text_column_ = "review";
  std::string label_column_ = "division";
  std::int64_t max_length_ = 64;
  std::int64_t batch_ = 8;
  std::int64_t steps_ = 250;
  double learning_rate_ = 5e-4;
  int ranks_ = 2;
  int threads_ = 0;
  int rounds_ = 5;
  std::int64_t seed_ = 42;
  std::string dtype_ = "fp32";
  std::string test_file_;
  std::vector<std::string> peers_;
  std::string python_ = "/usr/bin/python3";
  bool overhead_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_trainer() { return std::make_unique<BenchTrainer>(); }

}  // namespace lockstep
