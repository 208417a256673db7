//! Types of errors in OpenAI's words.

/// The type of an error, by the HTTP status with which it came.
pub fn openai_error_type(status_code: Option<u16>) -> &'static str {
    match status_code {
        Some(401) => "authentication_error",
        Some(403) => "permission_error",
        Some(404) => "not_found_error",
        Some(429) => "rate_limit_error",
        Some(400..=499) => "invalid_request_error",
        _ => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_told_by_the_status() {
        assert_eq!(openai_error_type(Some(400)), "invalid_request_error");
        assert_eq!(openai_error_type(Some(422)), "invalid_request_error");
        assert_eq!(openai_error_type(Some(429)), "rate_limit_error");
        assert_eq!(openai_error_type(Some(503)), "server_error");
        assert_eq!(openai_error_type(None), "server_error");
    }
}
