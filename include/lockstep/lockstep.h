#pragma once

// All that Lockstep promises to users. A program that names the headers it needs compiles faster.

#include "lockstep/version.h"  // LOCKSTEP_VERSION, as text and as numbers

#include "lockstep/base/deadline.h"     // a point in time by which a wait must end
#include "lockstep/base/environment.h"  // environment variables, with their types checked
#include "lockstep/base/error.h"        // Error: what happened, where, what to do

#include "lockstep/tensor/batch.h"         // named tensors of several samples
#include "lockstep/tensor/bf16_forward.h"  // forward in bf16, with the copies of weights that a fused update publishes
#include "lockstep/tensor/loss_sum.h"      // a loss as a sum and what it counts

#include "lockstep/data/batch.h"                       // named tensors of one sample
#include "lockstep/data/concat_dataset.h"              // several datasets one after the other
#include "lockstep/data/csv_dialect.h"                 // delimiter and quote of a CSV file
#include "lockstep/data/csv_reader.h"                  // a CSV file as tensors
#include "lockstep/data/data_loader.h"                 // reads a dataset in batches, with workers
#include "lockstep/data/dataset.h"                     // a finite list of samples
#include "lockstep/data/distributed_sampler.h"         // each rank's share, PyTorch's index by index
#include "lockstep/data/exact_distributed_sampler.h"   // each rank's share, no sample twice
#include "lockstep/data/idx.h"                         // the format of MNIST's files
#include "lockstep/data/language_modeling_collator.h"  // batches for language modelling
#include "lockstep/data/length_grouped_sampler.h"      // batches of texts of like lengths
#include "lockstep/data/mnist.h"                       // images and labels of IDX files
#include "lockstep/data/nsl_kdd.h"                     // the columns of an NSL-KDD file
#include "lockstep/data/padding_collator.h"            // batches of texts of different lengths
#include "lockstep/data/random_sampler.h"              // all samples in random order
#include "lockstep/data/sampler.h"                     // the order of samples, and where it stands
#include "lockstep/data/sequential_sampler.h"          // all samples in their order
#include "lockstep/data/subset_dataset.h"              // some samples of a dataset; random_split
#include "lockstep/data/tensor_dataset.h"              // samples that stand in memory
#include "lockstep/data/text_dataset.h"                // rows of texts and labels
#include "lockstep/data/text_file.h"                   // CSV, TSV, JSON Lines, SQuAD and text files
#include "lockstep/data/tokenized_dataset.h"           // texts as token ids
#include "lockstep/data/torch_data_sampler.h"          // Lockstep's samplers for torch::data
#include "lockstep/data/transform_dataset.h"           // samples changed when they are read

#include "lockstep/data/text/tokenizer.h"  // tokenizers from Hugging Face's files

#include "lockstep/safetensors/safetensors.h"  // files of tensors by name

#include "lockstep/models/bert.h"             // BERT's encoder
#include "lockstep/models/bert_heads.h"       // BERT with a classifier or masked words
#include "lockstep/models/convnet.h"          // the ConvNet of PyTorch's MNIST tutorials
#include "lockstep/models/encoder_models.h"   // these models
#include "lockstep/models/gpt2.h"             // GPT-2's decoder
#include "lockstep/models/key_value_cache.h"  // what a decoder keeps of the tokens that it has read
#include "lockstep/models/mlp.h"              // fully connected layers
#include "lockstep/models/model.h"            // a module with its loss and a synthetic batch
#include "lockstep/models/pretrained.h"       // from_pretrained and save_pretrained
#include "lockstep/models/registry.h"         // models by name
#include "lockstep/models/rotary_models.h"    // Llama, Qwen2, Qwen3, Mistral, SmolLM3

#include "lockstep/net/launcher_environment.h"  // RANK and its kin under mpirun and srun
#include "lockstep/net/long_work.h"             // lets other ranks wait for long work
#include "lockstep/net/store.h"                 // key-value memory of a job
#include "lockstep/net/store_errors.h"          // the store was lost, or a wait ended too late

#include "lockstep/optim/adam.h"            // Adam and AdamW over flat memory
#include "lockstep/optim/clip_grad_norm.h"  // clipping, for fused optimizers too
#include "lockstep/optim/flat_optimizer.h"  // what all optimizers over flat memory share
#include "lockstep/optim/grad_scaler.h"     // scales the loss for fp16
#include "lockstep/optim/lr_scheduler.h"    // sets learning rates by a schedule
#include "lockstep/optim/schedule.h"        // schedules of Hugging Face and PyTorch
#include "lockstep/optim/sgd.h"             // SGD over flat memory

#include "lockstep/comm/communicator.h"      // the collectives
#include "lockstep/comm/local_device.h"      // the device of this rank
#include "lockstep/comm/process_group.h"     // init_process_group and its group
#include "lockstep/comm/spawn.h"             // starts ranks as processes or threads
#include "lockstep/comm/symmetric_memory.h"  // memory that all ranks of a host see
#include "lockstep/comm/trace.h"             // records steps of all ranks, for ui.perfetto.dev

#include "lockstep/replicas/data_parallel.h"       // DataParallel: replicas in one process
#include "lockstep/replicas/gather.h"              // replicas' outputs put together
#include "lockstep/replicas/parallel_apply.h"      // calls all replicas at once
#include "lockstep/replicas/parallel_inference.h"  // evaluates on all replicas
#include "lockstep/replicas/parallel_loss.h"       // the exact loss of unequal chunks
#include "lockstep/replicas/replica_device.h"      // where a replica runs
#include "lockstep/replicas/replica_error.h"       // which replica failed
#include "lockstep/replicas/replicate.h"           // makes replicas
#include "lockstep/replicas/scatter.h"             // cuts inputs into chunks
#include "lockstep/replicas/step_trace.h"          // the parts of a step, timed

#include "lockstep/parallel/communication_hook.h"           // hooks: how a bucket is reduced
#include "lockstep/parallel/deferred.h"                     // models whose weights are made later, in shards
#include "lockstep/parallel/distributed_data_parallel.h"    // DistributedDataParallel: one replica for each rank
#include "lockstep/parallel/fully_sharded_data_parallel.h"  // fully_shard: weights in shards, as FSDP2
#include "lockstep/parallel/functional.h"                   // collectives that autograd differentiates
#include "lockstep/parallel/fuse_options.h"                 // how ranks share an optimizer's step
#include "lockstep/parallel/local_sgd.h"                    // post-local SGD and DiLoCo
#include "lockstep/parallel/parallel_context.h"             // OSLO's ParallelContext
#include "lockstep/parallel/power_sgd_hook.h"               // PowerSGD
#include "lockstep/parallel/same_data.h"                    // compares what ranks read
#include "lockstep/parallel/same_weights.h"                 // compares the ranks' weights
#include "lockstep/parallel/sync_batch_norm.h"              // batch normalisation over all ranks

#include "lockstep/elastic/elastic_loop.h"    // deprecated: on_rank_change
#include "lockstep/elastic/elastic_state.h"   // what its ranks give each other
#include "lockstep/elastic/on_rank_change.h"  // lets a program's own loop survive lost ranks

#include "lockstep/checkpoint/checkpoint.h"         // a checkpoint, opened for reading
#include "lockstep/checkpoint/checkpoint_search.h"  // find_newest_checkpoint, open_checkpoint
#include "lockstep/checkpoint/checkpoint_writer.h"  // writes checkpoints while training continues
#include "lockstep/checkpoint/generators.h"         // the random number generators of a rank
#include "lockstep/checkpoint/replica_check.h"      // whether the ranks' weights are equal
#include "lockstep/checkpoint/resume_state.h"       // a rank's part of a checkpoint, after a change of ranks too

#include "lockstep/train/accelerator.h"           // Accelerator: four lines for a loop of one's own
#include "lockstep/train/early_stopping.h"        // stops when a metric no longer improves
#include "lockstep/train/metrics.h"               // metrics by name
#include "lockstep/train/metrics_log_callback.h"  // writes metrics.jsonl, with the times of phases
#include "lockstep/train/printer_callback.h"      // prints logs
#include "lockstep/train/progress_callback.h"     // a progress bar for training and evaluation
#include "lockstep/train/tensorboard_callback.h"  // writes logs for TensorBoard
#include "lockstep/train/trainable_model.h"       // what Trainer needs to know of a model
#include "lockstep/train/trainer.h"               // Trainer: Hugging Face's, in C++
#include "lockstep/train/trainer_callback.h"      // hooks into Trainer's loop
#include "lockstep/train/training_arguments.h"    // how a Trainer trains
#include "lockstep/train/training_flags.h"        // command-line flags for them
#include "lockstep/train/verify.h"                // shows that N ranks compute what one does

#include "lockstep/sentence/contrastive_loss.h"   // negatives from all ranks
#include "lockstep/sentence/sentence_dataset.h"   // several texts a sample, each on its own
#include "lockstep/sentence/sentence_encoder.h"   // one vector for each text
#include "lockstep/sentence/sentence_training.h"  // losses and metrics of vectors of texts
