#!/usr/bin/env python3
"""Shows that the suite can fail: makes one mistake after the other in the code, each where a person might make it.

    python3 tests/mutants.py SOURCE BUILD [--only PATTERN] [--list] [--check] [--long] [--limit SECONDS]

For each mutant a file is changed, compiled, and linked with the test program that must notice it; tests/mutant_build.py
says how. Only tests of the ordinary suite count, unless --long is given. Exits with 1 if nothing notices a mutant.
While tests of the launcher run, the build folder's lockstep has the mutant.
--check compiles nothing: it looks whether all places that are changed, and all tests that are named, are there, as far
as their programs are built.

Those of numbers that would be wrong in silence are in tests/silent_mutants.py.

tests/simulation/mutants.py and tests/parallel/fused/survival/mutants.py do the same for lost ranks and hosts.
"""
import sys

import silent_mutants
from mutant_build import Mutant, look_for, parse_flags, with_header
from silent_mutants import test

SRC = "src/lockstep/"
KERNELS = [SRC + "optim/kernels/kernels_" + name + ".cpp" for name in ("scalar", "avx2", "avx512")]


# (what is wrong then, file, what stands there, what stands there instead, who must notice it)
REDUCER = SRC + "parallel/reducer/"
BACKWARD = SRC + "parallel/backward/"
OF_THE_REDUCER = [
    ("an average counts ranks that have finished", BACKWARD + "backward.cpp",
     "static_cast<int>(std::count(active.begin(), active.end(), true));", "static_cast<int>(active.size());",
     test("parallel_test", "*DistributedDataParallel.Join*")),
    ("the last bucket has no second exchange", BACKWARD + "bucket_queue.cpp",
     "i < progress_.size(); ++i) {\n    if (!leaves_in_backward(i)) continue;\n    wait_for(i);",
     "i + 1 < progress_.size(); ++i) {\n    if (!leaves_in_backward(i)) continue;\n    wait_for(i);",
     test("parallel_test", "*CommunicationHooks.*")),
    ("a gradient that arrives late is left out", BACKWARD + "bucket_queue.cpp", "    place.add_(late);\n", "",
     test("parallel_test", "*DataParallelProperty*")),
    ("a parameter that no rank uses keeps the flag of an earlier step", BACKWARD + "backward.cpp",
     "  state_ = State::Begun;\n  context_.flags.clear();\n", "  state_ = State::Begun;\n",
     test("parallel_test", "*DistributedDataParallel.*:*DataParallelProperty*")),
    ("buckets are sent as they become ready, on each rank in its own order", BACKWARD + "bucket_queue.cpp",
     "if (progress_[next_launch_].pending != 0) return;", "if (progress_[next_launch_].pending != 0) continue;",
     test("parallel_test", "*DataParallelProperty*")),
    ("a full bucket takes one more gradient", REDUCER + "bucket_layout.cpp",
     "found->bucket.bytes + gradient.bytes > found->cap_bytes", "found->bucket.bytes > found->cap_bytes",
     test("parallel_test", "*MakeBuckets*")),
    ("a backward does not say which module it is of", BACKWARD + "same_place.cpp",
     "  mine.say(context_.facts.module, static_cast<std::uint64_t>(context_.module));\n", "  static_cast<void>(mine);\n",
     test("parallel_test", "*TwoModules.Backwards*")),
]

FUSED = SRC + "parallel/fused/"
OF_THE_FUSED_UPDATE = [
    ("a fused average counts ranks that have finished", SRC + "parallel/update/owned_sums.cpp",
     "divides_by_active_ranks(context) ? context.agreement.active_ranks()",
     "divides_by_active_ranks(context) ? context.communicator->world_size()",
     test("parallel_test", "*FusedStep.Joins*")),
    ("a fused update clips by the norm of the rank's own share", FUSED + "norm_over_ranks.cpp",
     "reduce_number(communicator, value + (added == 0 ? 0 : std::pow(added, p)), ReduceOp::Sum);", "value + std::pow(added, p);",
     test("parallel_test", "*FusedStep.Clips*")),
    ("a skipped fused update is made", SRC + "parallel/update/update_step.cpp", "!std::isfinite(result.norm);", "false;",
     test("parallel_test", "*FusedStep.*NotFinite*:*FusedStep.*Infinite*")),
    ("a rank receives the weights of the others only in the next step", SRC + "parallel/update/update_step.cpp",
     "  receive_weights(context, parts);\n", "  static_cast<void>(receive_weights);\n", test("parallel_test", "*FuseEngine*")),
    ("a fused momentum begins anew in each step", SRC + "optim/update/sharded_update.cpp",
     "  for (const auto& [slot, count] : wanted) slot->first = false;\n", "", test("optim_test", "*Segments*")),
    ("each rank of a fused update has options of its own", FUSED + "agreement/update_terms.cpp",
     "  mix_options(number, optimizer_.group_options());\n", "", test("parallel_test", "*UpdateTerms.EveryOption*")),
    ("a fused step is paired with an older one", FUSED + "agreement/update_terms.cpp",
     "  mix_into(place, backwards());\n", "", test("parallel_test", "*UpdateTermsOf.AStep*/one_copy")),
]

OF_COLLECTIVES = [
    ("shm: what does not divide by the ranks is in no slice", SRC + "comm/shm/all_reduce.cpp",
     "(lines + ranks - 1) / ranks * line", "lines / ranks * line", test("comm_test", "*Collectives.AllReduce*/shm*")),
    ("shm: a staged tensor's last piece is left out", SRC + "comm/shm/staged_all_reduce.cpp",
     "  pieces_ = (elements.count + part_ * ranks - 1) / (part_ * ranks);",
     "  pieces_ = std::max<std::size_t>(1, elements.count / (part_ * ranks));",
     test("comm_test", "*Collectives.AllReduce*/shm*")),
    ("shm: messages with another tag are thrown away", SRC + "comm/shm/point_to_point.cpp",
     "    incoming.kept[message.tag].emplace_back(message.announcement, std::move(content));\n", "",
     test("comm_test", "*TaggedMessages*/shm*")),
    ("tcp: the last shard is cut off", SRC + "comm/mesh/shard_reduction.cpp",
     "const std::size_t units = (count + unit - 1) / unit;", "const std::size_t units = count / unit;",
     test("comm_test", "*Collectives.AllReduce*/tcp*")),
    ("tcp: operations of one kind are not numbered", SRC + "comm/mesh/activity.cpp",
     "    hash = mix(hash, f.sequence);\n", "", test("comm_test", "Activity*")),
    ("tcp: a tree of broadcasts leaves ranks out", SRC + "comm/mesh/collectives.cpp",
     "for (; number + bit < size_; bit *= 2) send_small", "if (number + bit < size_) send_small",
     test("comm_test", "*Collectives.Broadcast*/tcp*")),
    ("hierarchical: what does not divide by the lanes stays as it is", SRC + "comm/hierarchical/host_stages.cpp",
     "  if (even == flat.numel()) return;\n  at::Tensor rest", "  return;\n  at::Tensor rest",
     test("comm_test", "*Collectives.AllReduce*/hierarchical*")),
    ("hierarchical: an average over unequal hosts is divided by the hosts", SRC + "comm/hierarchical/host_stages.cpp",
     "slice.div_(world_size_);", "slice.div_(layout_.host_count());",
     test("comm_test", "*Collectives.AllReduce*/hierarchical*")),
    ("hierarchical: a small average over unequal hosts stays a sum", SRC + "comm/hierarchical/host_order.cpp",
     "if (op_of_stages(layout, op) != op) out.div_(in.numel() / out.numel());", "",
     test("comm_test", "*Collectives.*/hierarchical*")),
]

OF_SAMPLERS = [
    ("the tail of a share repeats the last sample", "include/lockstep/detail/data/sharded_order.h",
     "return (replica_.rank + i * replica_.count) % dataset_size_;",
     "return i * replica_.count + replica_.rank < dataset_size_ ? replica_.rank + i * replica_.count\n"
     "                                                            : dataset_size_ - 1;",
     test("data_test", "DistributedSampler*", with_header([SRC + "data/samplers/sharded_order.cpp"]))),
    ("drop_last of a sampler is ignored", SRC + "data/samplers/distributed_sampler.cpp",
     "options.drop_last ? replica.share_without_tail(dataset_size) : replica.padded_share(dataset_size)",
     "replica.padded_share(dataset_size)", test("data_test", "DistributedSampler*")),
    ("every epoch has the order of the first", SRC + "data/samplers/sharded_order.cpp",
     "shuffle(seed + static_cast<std::uint64_t>(epoch));", "shuffle(seed);", test("data_test", "DistributedSampler*")),
    ("an epoch that is continued begins at its first sample", SRC + "data/samplers/sampler.cpp",
     "  position_ = state.position;\n", "  position_ = 0;\n", test("data_test", "Sampler*:DataLoader*")),
    ("a loader with drop_last gives the smaller last batch", SRC + "data/data_loader.cpp",
     "options.drop_last ? taken_ + left / options.batch_size * options.batch_size : sampler->size();",
     "sampler->size();", test("data_test", "DataLoader.*")),
]

OF_TOKENIZERS = [
    ("WordPiece misses a token that ends with the word", SRC + "data/text/encoders/token_trie.h",
     "for (std::size_t i = 0; i < text.size(); ++i) {\n      const std::uint32_t child",
     "for (std::size_t i = 0; i + 1 < text.size(); ++i) {\n      const std::uint32_t child",
     test("data_text_test", "BertEncoder*:*Tokenizer*", with_header([SRC + "data/text/encoders/wordpiece.cpp"]))),
    ("WordPiece keeps the parts of a word that it cannot cut", SRC + "data/text/encoders/wordpiece.cpp",
     "  parts.resize(before);\n", "", test("data_text_test", "*BertEncoder*:*Tokenizer*")),
    ("WordPiece counts the bytes of a word for its characters", SRC + "data/text/encoders/wordpiece.cpp",
     "word.size() > limit && count_chars(word) > limit", "word.size() > limit", test("data_text_test", "WordPiece.*")),
    ("BPE makes the last merge first in a long word", SRC + "data/text/encoders/byte_pair.cpp",
     "std::greater<std::uint64_t>()", "std::less<std::uint64_t>()", test("data_text_test", "BytePair*")),
    ("BPE forgets what a merge makes possible on its left", SRC + "data/text/encoders/byte_pair.cpp",
     "    if (best > 0) ranks[best - 1] = rank_of(part[best - 1].id, part[best].id);\n", "",
     test("data_text_test", "BytePair*")),
    ("the byte A0 stands for itself", SRC + "data/text/encoders/byte_level.cpp", "byte >= 0xA1", "byte >= 0xA0",
     test("data_text_test", "ByteLevel.*")),
]

FILES = SRC + "checkpoint/files/"
OF_CHECKPOINTS = [
    ("checksums of a checkpoint are not compared", FILES + "manifest.cpp", "if (found == file.sha256) continue;",
     "continue;", test("checkpoint_test", "*DamagedCheckpoints*")),
    ("a checkpoint is renamed before its files are on the disk", FILES + "staged_file.cpp",
     '  if (files_.sync(fd_.get()) != 0) fail_to("sync", path_);\n', "", test("checkpoint_test", "*SaveFaults.*")),
    ("a checkpoint is published without all ranks' files", SRC + "checkpoint/checkpoint_save.cpp",
     "    check_parts(save, staging, manifest);\n", "", test("checkpoint_test", "SeveralRanksFail.*")),
    ("the best checkpoint is removed", FILES + "output_folder.cpp",
     "if (entry->step == newest || entry->step == best) continue;", "if (entry->step == newest) continue;",
     test("checkpoint_test", "*Rotation*")),
    ("the optimizer's state of a parameter that was updated once is not saved",
     SRC + "optim/update/optimizer_state.cpp", "slot->step == 0 || slot->numel()", "slot->step <= 1 || slot->numel()",
     test("optim_test", "*NamedState*:*LoadedState*:*Shard*")),
    ("generators are not restored", SRC + "checkpoint/state/generators.cpp",
     "      entry.load(bytes_of_tensor(*found));\n", "", test("checkpoint_test", "GeneratorState*")),
    ("on another number of ranks the samples of the first rank count alone", SRC + "checkpoint/state/world_remap.cpp",
     "taken += state.position;", "taken = state.position;", test("checkpoint_test", "*Remap*")),
]

OF_THE_LAUNCHER = [
    ("the exit code of a rank is taken for a status of wait", SRC + "launch/process/exit_status.cpp",
     "status.code = info.si_status;", "status.code = info.si_status >> 8;",
     test("e2e_launcher_test", "Failure.IsReported*", starts="lockstep")),
    ("restarts are not counted", SRC + "launch/nodes/one_node.cpp",
     "agreement.restarts = attempt_ + replacements_;", "agreement.restarts = replacements_;",
     test("e2e_launcher_test", "Restarts.*", starts="lockstep")),
    ("ranks do not learn the number of their host's ranks", SRC + "launch/ranks/rank_environment.cpp",
     '      {"LOCAL_WORLD_SIZE", number(place.local_world_size)},\n', "", test("launch_test", "RankVariables*")),
    ("variables that the launcher was given come before those of a rank", SRC + "launch/ranks/rank_environment.cpp",
     "if (replaced.count(name_of(entry)) == 0) merged", "merged", test("launch_test", "MergedEnvironment*")),
    ("ranks share a core with their neighbours", SRC + "launch/ranks/cpu_share.cpp",
     "rank * (cores / ranks) + std::min(rank, cores % ranks)", "rank * (cores / ranks)",
     test("launch_test", "*ShareCores*")),
    ("the rank that ended first is named, not the cause", SRC + "launch/ranks/rank_end.cpp",
     "if (is_consequence(end)) return 4;", "if (is_consequence(end)) return 0;", test("launch_test", "*FirstFailure*")),
]

OF_OPTIMIZERS = [
    ("Adam does not correct the bias of its second moment", SRC + "optim/kernels/kernel_loops.h",
     "root_correction2_(S::set(std::sqrt(1 - std::pow(pass.hyper.beta2, static_cast<double>(pass.step))))),",
     "root_correction2_(S::set(1)),", test("optim_test", "*AgainstLibTorch*", with_header(KERNELS))),
    ("AdamW's weight decay passes through the moments", SRC + "optim/adam.cpp", "  if (kDecoupled) {", "  if (false) {",
     test("optim_test", "*AgainstLibTorch*")),
    ("clipping adds up norms", SRC + "optim/clip_grad_norm.cpp", "std::sqrt(a * a + b * b)", "a + b",
     test("parallel_test", "*FuseMisuse.Clips*")),
    ("the loss scale grows one step late", SRC + "optim/grad_scaler.cpp",
     "++state_.growth_tracker < options_.growth_interval", "state_.growth_tracker++ < options_.growth_interval",
     test("optim_test", "*Scaler*")),
    ("a warm-up is one step ahead", SRC + "optim/schedules/schedule.cpp",
     "return step < warmup ? ratio(step, warmup) : after(", "return step < warmup ? ratio(step + 1, warmup) : after(",
     test("optim_test", "*Schedules*")),
    ("a plateau is one epoch shorter", SRC + "optim/schedules/lr_scheduler.cpp",
     "state_.num_bad_epochs <= options_.patience", "state_.num_bad_epochs < options_.patience",
     test("optim_test", "ReduceLROnPlateau*")),
]

OF_THE_LOSS = [
    ("tokens that do not count are counted", SRC + "models/loss.cpp", "labels.ne(kIgnoreIndex).sum()",
     "labels.eq(labels).sum()", test("models_test", "*GPT2Lm*:*EveryModel*")),
    ("gradients are divided by the ranks, too", SRC + "train/ddp/ddp_engine.cpp",
     "count == 0 ? 0 : world_size_ / static_cast<double>(count);", "count == 0 ? 0 : 1 / static_cast<double>(count);",
     test("train_test", "*OneFormula*")),
    ("the loss of an evaluation counts batches", SRC + "train/loop/evaluation.cpp",
     "sums.count += result.loss->count.item<std::int64_t>();", "++sums.count;", test("train_test", "*Evaluation*")),
    ("what an update's loss counts is that of the rank alone", SRC + "train/slices/update_totals.cpp",
     "  group->all_reduce(sums);\n", "", test("train_test", "*OneFormula*")),
]

OF_READERS = [
    ("a doubled quote of a CSV field stays doubled", SRC + "data/csv/csv_tokenizer.cpp",
     "    if (text[i] == doubled) ++i;\n", "", test("data_test", "CsvTokenizer*")),
    ("a delimiter in quotes ends a CSV field", SRC + "data/csv/csv_tokenizer.cpp",
     "dialect_.quote != '\\0' && position_ < text_.size() && text_[position_] == dialect_.quote",
     "false", test("data_test", "CsvTokenizer*")),
    ("numbers of an IDX file stay big-endian", SRC + "data/images/idx_reader.cpp",
     "  swap_idx_bytes(out, payload_bytes_, idx_element_bytes(type_));\n", "", test("data_test", "Idx*")),
]


def mutants():
    rows = (OF_THE_REDUCER + OF_THE_FUSED_UPDATE + OF_COLLECTIVES + OF_SAMPLERS + OF_TOKENIZERS + OF_CHECKPOINTS +
            OF_THE_LAUNCHER + OF_OPTIMIZERS + OF_THE_LOSS + OF_READERS + silent_mutants.ALL)
    return [Mutant(what, file, old, new, [look]) for what, file, old, new, look in rows]


if __name__ == "__main__":
    sys.exit(look_for(parse_flags(__doc__, limit_s=300), mutants()))
