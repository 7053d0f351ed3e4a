// A Trainer's options for the small task, with a folder, and everything that it prints.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/train/trainer.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/token_task.h"

namespace lockstep {

struct TokenTraining {
  TemporaryFolder folder;
  std::shared_ptr<TokenNetImpl> net = make_token_net();
  std::vector<std::string> printed;
  TrainerOptions options;

  explicit TokenTraining(std::int64_t samples = 12) {
    options.model = adapt_token_net(net);
    options.train_dataset = std::make_shared<TokenTaskDataset>(samples);
    options.eval_dataset = std::make_shared<TokenTaskDataset>(7, 5);
    options.data_collator = pad_tokens;
    options.print = [this](const std::string& line) { printed.push_back(line); };
    options.args.output_dir = folder.path();
    options.args.per_device_train_batch_size = 2;
    options.args.learning_rate = 0.05;
    options.args.save_strategy = "no";
    options.args.num_train_epochs = 1;
  }
  bool has_printed(const std::string& text) const {
    for (const std::string& line : printed) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  }
};

}  // namespace lockstep
