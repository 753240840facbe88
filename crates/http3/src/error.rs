//! Error codes (RFC 9114 section 8.1, RFC 9204 section 6, RFC 9297 section 5.2) and our reasons for
//! using them.
//!
//! One table of reasons: a variant per cause, the code that the peer sees, and the words for the
//! log. The words may also be sent as the reason phrase of CONNECTION_CLOSE, which helps to debug
//! the other side.

use saker_http_mux::{error_codes, reasons};

// RFC 9114 section 9: unknown codes, the reserved ones of section 8.1 among them, are as
// H3_NO_ERROR.
error_codes! {
    u64, unknown: NoError;
    0x33 DatagramError "H3_DATAGRAM_ERROR";
    0x0100 NoError "H3_NO_ERROR";
    0x0101 GeneralProtocolError "H3_GENERAL_PROTOCOL_ERROR";
    0x0102 InternalError "H3_INTERNAL_ERROR";
    0x0103 StreamCreationError "H3_STREAM_CREATION_ERROR";
    0x0104 ClosedCriticalStream "H3_CLOSED_CRITICAL_STREAM";
    0x0105 FrameUnexpected "H3_FRAME_UNEXPECTED";
    0x0106 FrameError "H3_FRAME_ERROR";
    0x0107 ExcessiveLoad "H3_EXCESSIVE_LOAD";
    0x0108 IdError "H3_ID_ERROR";
    0x0109 SettingsError "H3_SETTINGS_ERROR";
    0x010a MissingSettings "H3_MISSING_SETTINGS";
    0x010b RequestRejected "H3_REQUEST_REJECTED";
    0x010c RequestCancelled "H3_REQUEST_CANCELLED";
    0x010d RequestIncomplete "H3_REQUEST_INCOMPLETE";
    0x010e MessageError "H3_MESSAGE_ERROR";
    0x010f ConnectError "H3_CONNECT_ERROR";
    0x0110 VersionFallback "H3_VERSION_FALLBACK";
    0x0200 DecompressionFailed "QPACK_DECOMPRESSION_FAILED";
    0x0201 EncoderStreamError "QPACK_ENCODER_STREAM_ERROR";
    0x0202 DecoderStreamError "QPACK_DECODER_STREAM_ERROR";
}

// The driver closes the connection with the code of a fault.
reasons! {
    malformed: MessageError;
    NoSettings MissingSettings "first frame of the control stream is not SETTINGS";
    SecondSettings FrameUnexpected "second SETTINGS";
    SettingOfHttp2 SettingsError "setting that only HTTP/2 has";
    SettingTwice SettingsError "setting sent twice";
    BadSetting SettingsError "setting with an invalid value";
    SettingsTooLarge ExcessiveLoad "SETTINGS too large";
    FrameOnControlStream FrameUnexpected "frame that belongs to a request came on the control stream";
    FrameOnRequestStream FrameUnexpected "frame that belongs to the control stream came on a request stream";
    FrameOfHttp2 FrameUnexpected "frame of a type that only HTTP/2 has";
    ContentBeforeHead FrameUnexpected "content before the head";
    FrameAfterTrailers FrameUnexpected "content or fields after trailers";
    FieldsInTunnel FrameUnexpected "fields after CONNECT";
    PushFromClient FrameUnexpected "PUSH_PROMISE from a client";
    MaxPushIdFromServer FrameUnexpected "MAX_PUSH_ID from a server";
    PriorityUpdateFromServer FrameUnexpected "PRIORITY_UPDATE from a server";
    FrameTruncated FrameError "stream ends within a frame";
    BadFrameSize FrameError "frame of a wrong length";
    PushRefused IdError "push though none is allowed";
    MaxPushIdReduced IdError "MAX_PUSH_ID reduced";
    NoSuchPush IdError "identifier of a push that was never promised";
    BadPriorityStream IdError "PRIORITY_UPDATE of a stream that is no request or beyond the limit";
    BadGoAway IdError "GOAWAY with an identifier of a wrong kind";
    GoAwayRaised IdError "GOAWAY with a higher identifier than before";
    ServerOpenedStream StreamCreationError "bidirectional stream opened by a server";
    ClientPushStream StreamCreationError "push stream opened by a client";
    SecondStreamOfType StreamCreationError "second stream of a type that there is one of";
    UnknownStreamType StreamCreationError "unidirectional stream of an unknown type";
    CriticalStreamClosed ClosedCriticalStream "critical stream closed";
    BadFieldSection DecompressionFailed "field section can't be decoded";
    TooManyBlocked DecompressionFailed "more streams wait for the table than QPACK_BLOCKED_STREAMS";
    BadEncoderStream EncoderStreamError "encoder stream can't be read";
    BadDecoderStream DecoderStreamError "decoder stream can't be read";
    TooManyStreams RequestRejected "more streams than are allowed";
    ShuttingDown RequestRejected "stream opened after GOAWAY";
    TooManyFieldBytes RequestRejected "too many bytes of unfinished field sections";
    TooManyResets ExcessiveLoad "too many streams reset";
    TooManyPriorityUpdates ExcessiveLoad "too many PRIORITY_UPDATE frames";
    TooManyEmptyFrames ExcessiveLoad "too many frames without effect";
    TooManyTableUpdates ExcessiveLoad "too many table updates";
    RepliesUnread ExcessiveLoad "replies pile up because the peer does not read";
    ControlFrameTooLarge ExcessiveLoad "frame on the control stream too large";
    TrailersTooLarge ExcessiveLoad "trailers too large";
    RequestIncomplete RequestIncomplete "stream ends before the request head";
    ResponseIncomplete MessageError "stream ends before the response head";
    ContentTooLong MessageError "more content than Content-Length says";
    ContentTooShort MessageError "less content than Content-Length says";
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http_mux::HeadFault;

    #[test]
    fn codes_are_those_of_the_standards() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from(u64::from(*code)), *code);
        }
        assert_eq!(ErrorCode::ALL.len(), 21);
        assert_eq!(ErrorCode::from(0x21), ErrorCode::NoError, "reserved");
        assert_eq!(ErrorCode::from(u64::MAX), ErrorCode::NoError);
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
