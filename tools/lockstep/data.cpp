// `lockstep data`: downloads or generates datasets for trying things out.
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include "lockstep/data/images/digits.h"
#include "lockstep/data/images/mnist_download.h"
#include "tools/frame/subcommand.h"

namespace lockstep {
namespace {

class Data : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.require_subcommand(1);
    add_get(*app.add_subcommand("get", "download a dataset and check it"));
    add_digits(*app.add_subcommand("digits", "generate digits that look handwritten; needs no network"));
    show_examples(app, {"lockstep data get mnist --output data/mnist", "lockstep data digits --output data/digits"});
  }

  int run(const CommandStreams& streams) override {
    if (digits_ != nullptr && digits_->parsed()) return run_digits(streams.out);
    return run_get(streams.out);
  }

 private:
  void add_get(CLI::App& app) {
    app.add_option("dataset", dataset_, fmt::format("one of: {}", fmt::join(downloadable_datasets(), ", ")))
        ->required()
        ->check(CLI::IsMember(downloadable_datasets()));
    app.add_option("--output", output_, "folder for the files (default: data/ and the dataset's name)");
    app.add_option("--mirror", mirror_,
                   "address of a folder with the files (https, http or file), instead of the usual one");
    show_examples(app, {"lockstep data get mnist", "lockstep data get fashion-mnist --output /data/fashion",
                        "lockstep data get mnist --mirror http://mirror.example/mnist"});
  }

  void add_digits(CLI::App& app) {
    digits_ = &app;
    app.add_option("--output", output_, "folder for the files")->required();
    app.add_option("--train", options_.train, "number of training images")->capture_default_str();
    app.add_option("--test", options_.test, "number of test images")->capture_default_str();
    app.add_option("--seed", options_.seed, "seed from which the digits are drawn")->capture_default_str();
    app.add_flag("--force", force_, "overwrite files that exist and differ");
    show_examples(app, {"lockstep data digits --output data/digits",
                        "lockstep data digits --output data/many --train 60000 --test 10000 --seed 7"});
  }

  int run_get(std::ostream& out) const {
    const std::string folder = output_.empty() ? "data/" + dataset_ : output_;
    download_dataset(dataset_, folder, mirror_, [&](const std::string& line) { fmt::print(out, "{}\n", line); });
    return 0;
  }

  int run_digits(std::ostream& out) const {
    write_digits(output_, options_, force_);
    fmt::print(out, "{} digits for training and {} for testing, seed {}, in {}\n", options_.train, options_.test,
               options_.seed, output_);
    return 0;
  }

  const CLI::App* digits_ = nullptr;
  std::string dataset_;
  std::string output_;
  std::string mirror_;
  DigitsOptions options_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_data() { return std::make_unique<Data>(); }

}  // namespace lockstep
