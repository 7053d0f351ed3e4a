#pragma once

#include <string_view>

namespace lockstep::fuzz {

// One file each, of that name.
void run_accelerate_config(std::string_view bytes);
void run_arrow(std::string_view bytes);
void run_csv(std::string_view bytes);
void run_decimal(std::string_view bytes);
void run_elastic_message(std::string_view bytes);
void run_gzip(std::string_view bytes);
void run_idx(std::string_view bytes);
void run_json_lines(std::string_view bytes);
void run_json_problem(std::string_view bytes);
void run_manifest(std::string_view bytes);
void run_merges(std::string_view bytes);
void run_metrics(std::string_view bytes);
void run_model_config(std::string_view bytes);
void run_optimizer_metadata(std::string_view bytes);
void run_parquet(std::string_view bytes);
void run_part_places(std::string_view bytes);
void run_peer_handshake(std::string_view bytes);
void run_peer_record(std::string_view bytes);
void run_pickle(std::string_view bytes);
void run_safetensors_header(std::string_view bytes);
void run_sbatch(std::string_view bytes);
void run_sentence_layout(std::string_view bytes);
void run_slurm_list(std::string_view bytes);
void run_squad(std::string_view bytes);
void run_store_frame(std::string_view bytes);
void run_store_handshake(std::string_view bytes);
void run_store_request(std::string_view bytes);
void run_store_seal(std::string_view bytes);
void run_tokenizer_json(std::string_view bytes);
void run_trainer_state(std::string_view bytes);
void run_utf8(std::string_view bytes);
void run_vocabulary(std::string_view bytes);
void run_weight_index(std::string_view bytes);
void run_yaml_arguments(std::string_view bytes);

}  // namespace lockstep::fuzz
