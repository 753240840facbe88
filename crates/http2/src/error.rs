//! Error codes (RFC 9113 section 7) and our reasons for using them.
//!
//! One table of reasons: a variant per cause, the code that the peer sees, and the words for the
//! log. The words are also sent as the debug data of a GOAWAY (RFC 9113 section 6.8), which helps
//! to debug the other side.

use saker_http_mux::{error_codes, reasons};

// RFC 9113 section 7: unknown codes are as INTERNAL_ERROR.
error_codes! {
    u32, unknown: InternalError;
    0x00 NoError "NO_ERROR";
    0x01 ProtocolError "PROTOCOL_ERROR";
    0x02 InternalError "INTERNAL_ERROR";
    0x03 FlowControlError "FLOW_CONTROL_ERROR";
    0x04 SettingsTimeout "SETTINGS_TIMEOUT";
    0x05 StreamClosed "STREAM_CLOSED";
    0x06 FrameSizeError "FRAME_SIZE_ERROR";
    0x07 RefusedStream "REFUSED_STREAM";
    0x08 Cancel "CANCEL";
    0x09 CompressionError "COMPRESSION_ERROR";
    0x0a ConnectError "CONNECT_ERROR";
    0x0b EnhanceYourCalm "ENHANCE_YOUR_CALM";
    0x0c InadequateSecurity "INADEQUATE_SECURITY";
    0x0d HttP11Required "HTTP_1_1_REQUIRED";
}

// GOAWAY has been written already when a fault is told of.
reasons! {
    malformed: ProtocolError;
    BadPreface ProtocolError "connection preface is not that of HTTP/2";
    NoSettings ProtocolError "first frame is not SETTINGS";
    FrameTooLarge FrameSizeError "frame larger than SETTINGS_MAX_FRAME_SIZE";
    BadFrameSize FrameSizeError "frame of a wrong length";
    BadPadding ProtocolError "padding longer than the frame";
    FrameOnConnection ProtocolError "frame that belongs to a stream came on stream 0";
    FrameOnStream ProtocolError "frame that belongs to the connection came on a stream";
    FrameOnIdleStream ProtocolError "frame on an idle stream";
    FrameOnClosedStream StreamClosed "frame on a closed stream";
    BadStreamId ProtocolError "stream identifier that the peer may not open";
    ContinuationExpected ProtocolError "field block interrupted by another frame";
    UnexpectedContinuation ProtocolError "CONTINUATION without a field block";
    PushRefused ProtocolError "PUSH_PROMISE though push is disabled";
    SettingsAckWithPayload FrameSizeError "SETTINGS acknowledgement with a payload";
    BadSetting ProtocolError "setting with an invalid value";
    WindowSettingTooLarge FlowControlError "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1";
    WindowOverflow FlowControlError "flow-control window above 2^31-1";
    ZeroIncrement ProtocolError "WINDOW_UPDATE by zero";
    WindowExceeded FlowControlError "more content than the flow-control window allows";
    BadFieldBlock CompressionError "field block can't be decoded";
    SelfDependency ProtocolError "stream that depends on itself";
    TooManyStreams RefusedStream "more streams than SETTINGS_MAX_CONCURRENT_STREAMS";
    ShuttingDown RefusedStream "stream opened after GOAWAY";
    TooManyContinuations EnhanceYourCalm "too many CONTINUATION frames";
    TooManyResets EnhanceYourCalm "too many streams reset";
    TooManyPings EnhanceYourCalm "too many PING frames";
    TooManySettings EnhanceYourCalm "too many SETTINGS frames";
    TooManyWindowUpdates EnhanceYourCalm "too many WINDOW_UPDATE frames";
    TooManyPriorityUpdates EnhanceYourCalm "too many priority frames";
    TooManyEmptyFrames EnhanceYourCalm "too many frames without effect";
    RepliesUnread EnhanceYourCalm "replies pile up because the peer does not read";
    HeadTooLarge EnhanceYourCalm "request head too large";
    TrailersTooLarge EnhanceYourCalm "trailers too large";
    NotTrailers ProtocolError "second field block that does not end the stream";
    UnexpectedResponse ProtocolError "response where none is due";
    ContentBeforeHead ProtocolError "content before the response head";
    ContentUnexpected ProtocolError "content in a response that can have none";
    ContentTooLong ProtocolError "more content than Content-Length says";
    ContentTooShort ProtocolError "less content than Content-Length says";
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http_mux::HeadFault;

    #[test]
    fn codes_are_those_of_the_standard() {
        for (value, code) in ErrorCode::ALL.iter().enumerate() {
            assert_eq!(u32::from(*code), value as u32);
            assert_eq!(ErrorCode::from(value as u32), *code);
        }
        assert_eq!(ErrorCode::ALL.len(), 14);
        assert_eq!(ErrorCode::from(0x0e), ErrorCode::InternalError);
        assert_eq!(ErrorCode::from(u32::MAX), ErrorCode::InternalError);
    }

    #[test]
    fn every_reason_has_words_of_its_own_and_a_code_that_is_an_error() {
        let reasons: Vec<Reason> = Reason::ALL
            .iter()
            .copied()
            .chain(HeadFault::ALL.iter().copied().map(Reason::from))
            .collect();
        for (at, reason) in reasons.iter().enumerate() {
            assert_ne!(reason.code(), ErrorCode::NoError);
            assert!(
                reasons[..at]
                    .iter()
                    .all(|other| other.as_str() != reason.as_str()),
                "{}",
                reason.as_str()
            );
        }
    }
}
